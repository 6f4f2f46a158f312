package main

import (
	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/report"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

func (a *app) holdCommand() *cobra.Command {
	var why string
	c := &cobra.Command{
		Use:   "hold CONSUMER --why TEXT",
		Short: "Stop a consumer in all its processes, without a deploy",
		Long: `A held consumer starts nothing: its deliveries wait unsettled or go back to the
queue, no attempt is counted, and no letter is made. All its processes follow
within 10 seconds; handlers that run already finish.

Hold it before work that must not meet running handlers: a rename, a repair of the
data, a bug that is making letters of everything. It never loses a message. Nothing
resumes by itself: sekali resume CONSUMER.`,
		Example: `  sekali hold orders.stock --why "wrong prices, fix is on its way"`,
		Args:    exactly("CONSUMER"),
	}
	c.Flags().StringVar(&why, "why", "", "reason, kept in the audit (required)")
	c.RunE = func(c *cobra.Command, args []string) error {
		hold := true
		return a.change(c.Context(), change{
			consumer: args[0], why: why, change: inbox.Change{Hold: &hold}, done: "held",
			what: func(before inbox.Consumer) (string, error) {
				if before.Held() {
					return "", failf("%s is held already, since %s by %s: %s", before.Name, report.Time(before.HeldSince), before.HeldBy, before.HeldWhy)
				}
				return "", nil
			},
			next: func(after inbox.Consumer) []string {
				return []string{
					"Held: " + after.Name + " starts nothing from within 10 s on; what runs finishes.",
					"Next: messages wait in queue " + after.Queue + ". To go on: sekali resume " + after.Name,
				}
			},
		})
	}
	return c
}

func (a *app) resumeCommand() *cobra.Command {
	var why string
	c := &cobra.Command{
		Use:   "resume CONSUMER --why TEXT",
		Short: "Let a held consumer go on",
		Long: `Ends a hold. All processes of the consumer follow within 10 seconds and take up
the messages that waited. It never skips or loses any of them.

(To go on with a redrive that stopped: sekali dlq redrive --resume RUN.)`,
		Example: `  sekali resume orders.stock --why "fix is deployed"`,
		Args:    exactly("CONSUMER"),
	}
	c.Flags().StringVar(&why, "why", "", "reason, kept in the audit (required)")
	c.RunE = func(c *cobra.Command, args []string) error {
		hold := false
		return a.change(c.Context(), change{
			consumer: args[0], why: why, change: inbox.Change{Hold: &hold}, done: "resumed",
			what: func(before inbox.Consumer) (string, error) {
				if !before.Held() {
					return "", failf("%s is not held: nothing to do", before.Name)
				}
				return "", nil
			},
			next: func(after inbox.Consumer) []string {
				return []string{"Resumed: within 10 s " + after.Name + " takes messages from queue " + after.Queue + " again."}
			},
		})
	}
	return c
}
