package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/report"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// change is one change of a consumer's row.
type change struct {
	consumer, why string
	change        inbox.Change
	// now takes the database's time for the horizon.
	now bool
	// what is asked before it is done; "" is not asked.
	what func(inbox.Consumer) (question string, err error)
	// done in a word, and what happens next.
	done string
	next func(inbox.Consumer) []string
}

func (a *app) change(ctx context.Context, ch change) error {
	note, err := a.note(ch.why)
	if err != nil {
		return err
	}
	o, before, err := a.registered(ctx, ch.consumer)
	if err != nil {
		return err
	}
	if ch.now {
		// The database's clock, which may be behind this machine's.
		stats, err := o.box.Stats(ctx, before.Name)
		if err != nil {
			return o.source.Explain(err)
		}
		*ch.change.Horizon = stats.Now
	}
	question, err := ch.what(before)
	if err != nil {
		return err
	}
	if question != "" {
		if err := a.ask(ctx, question); err != nil {
			return err
		}
	}
	after, err := o.box.Change(ctx, before.Name, ch.change, note)
	if err != nil {
		return o.source.Explain(err)
	}
	p := a.printer()
	return p.Object(struct {
		consumerOut

		Done string `json:"done"`
	}{newConsumerOut(o.name, after), ch.done}, func() {
		for _, line := range ch.next(after) {
			p.Linef("%s", report.Printable(line))
		}
	})
}

func (a *app) inboxMode() *cobra.Command {
	var why string
	c := &cobra.Command{
		Use:   "mode CONSUMER enforce|observe --why TEXT",
		Short: "Let a consumer skip duplicates, or only count them",
		Long: `enforce skips duplicates: the normal mode. observe claims too, but always runs the
handler and only counts what would have been skipped: for the first days of a
service with Sekali.

Running services follow within 10 seconds, without a restart. It never changes
what was claimed so far.`,
		Example: `  sekali inbox mode orders.stock enforce --why "a week without surprises"`,
		Args:    exactly("CONSUMER", "MODE"),
	}
	c.Flags().StringVar(&why, "why", "", "reason, kept in the audit (required)")
	c.RunE = func(c *cobra.Command, args []string) error {
		mode, err := inbox.ParseMode(args[1])
		if err != nil {
			return usagef("%s", err)
		}
		return a.change(c.Context(), change{
			consumer: args[0], why: why, change: inbox.Change{Mode: &mode}, done: "mode changed",
			what: func(before inbox.Consumer) (string, error) {
				if mode == inbox.Observe && before.Mode == inbox.Enforce {
					return "From now on duplicates of " + before.Name + " take effect again", nil
				}
				return "", nil
			},
			next: func(after inbox.Consumer) []string {
				if after.Mode == inbox.Observe {
					return []string{after.Name + " observes: within 10 s its handler runs for every copy, and duplicates are only counted."}
				}
				return []string{after.Name + " enforces: within 10 s duplicates are skipped."}
			},
		})
	}
	return c
}

func (a *app) inboxKeyRule() *cobra.Command {
	var why string
	c := &cobra.Command{
		Use:   "accept-key-rule CONSUMER RULE --why TEXT",
		Short: "Let a consumer register with another key rule",
		Long: `A service whose key rule changed refuses to start: keys of the two rules do not
recognise each other's messages, so a copy of a message that was processed under
the old rule runs again under the new one.

Accept the new rule when that cannot happen any more: the old version is stopped,
the queue and the retry queues are empty of messages that it may have processed, and
no letters of it wait. It never touches claims.`,
		Example: `  sekali inbox accept-key-rule orders.stock "json:/order/id" --why "producer sends order ids now"`,
		Args:    exactly("CONSUMER", "RULE"),
	}
	c.Flags().StringVar(&why, "why", "", "reason, kept in the audit (required)")
	c.RunE = func(c *cobra.Command, args []string) error {
		rule := args[1]
		if !strings.HasPrefix(rule, "func:") {
			key, err := inbox.ParseKey(rule)
			if err != nil {
				return usagef("%s", err)
			}
			rule = key.String()
		}
		return a.change(c.Context(), change{
			consumer: args[0], why: why, change: inbox.Change{KeyRule: &rule}, done: "key rule accepted",
			what: func(before inbox.Consumer) (string, error) {
				if before.KeyRule == rule {
					return "", failf("%s has this key rule already: nothing to do", before.Name)
				}
				return fmt.Sprintf("Copies of what %s processed under %q will run again under %q", before.Name, before.KeyRule, rule), nil
			},
			next: func(after inbox.Consumer) []string {
				return []string{
					"Accepted: " + after.Name + " registers with the key rule " + after.KeyRule + ".",
					"Next: start the new version. One that still has the old rule is refused when it starts.",
				}
			},
		})
	}
	return c
}

func (a *app) inboxHorizon() *cobra.Command {
	var why string
	c := &cobra.Command{
		Use:   "horizon CONSUMER TIME|now --why TEXT",
		Short: "Say from when on a missing claim proves that a message is new",
		Long: `Before a consumer's horizon a missing claim proves nothing: letters from then are
"unknown" and a redrive leaves them to you. Move it after the database was restored
from a backup (to the time of the restore: claims since the backup are gone), or
after claims were deleted by hand.

TIME is RFC 3339, as in 2026-12-24T03:00:00Z. It never moves back, and never touches
claims: running services are not affected.`,
		Example: `  sekali inbox horizon orders.stock now --why "restored from last night's backup"`,
		Args:    exactly("CONSUMER", "TIME"),
	}
	c.Flags().StringVar(&why, "why", "", "reason, kept in the audit (required)")
	c.RunE = func(c *cobra.Command, args []string) error {
		at, err := when(args[1])
		if err != nil {
			return err
		}
		return a.change(c.Context(), change{
			consumer: args[0], why: why, change: inbox.Change{Horizon: &at}, now: args[1] == "now", done: "horizon moved",
			what: func(before inbox.Consumer) (string, error) {
				if !at.After(before.Horizon) {
					return "", failf("the horizon of %s is at %s, later than that: it never moves back", before.Name, report.Time(before.Horizon))
				}
				return fmt.Sprintf("Letters of %s from before %s will be unknown", before.Name, report.Time(at)), nil
			},
			next: func(after inbox.Consumer) []string {
				return []string{
					"The horizon of " + after.Name + " is " + report.Time(after.Horizon) + ".",
					"Next: letters from before it are \"unknown\"; look at them with: sekali dlq list --consumer " + after.Name + " --verdict unknown",
				}
			},
		})
	}
	return c
}

// when reads a time that an operator gave.
func when(text string) (time.Time, error) {
	if text == "now" {
		return time.Now(), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05Z"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usagef("%q is no time: write it as 2026-12-24T03:00:00Z, or now", text)
}
