package main

import (
	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

func (a *app) inboxForget() *cobra.Command {
	var why string
	c := &cobra.Command{
		Use:   "forget CONSUMER KEY --why TEXT",
		Short: "Forget one claim, so that the next copy of the message runs again",
		Long: `Deletes the claim of one key: as far as this consumer is concerned the message was
never processed. The next copy runs the handler, whoever sends it: a redrive, the
producer, the broker.

Do it when you know that the work is not done, or was undone: a split letter after
its writes were cleaned up, a correction that must be applied again. It never
undoes what the handler wrote, and sends nothing.`,
		Example: `  sekali inbox forget orders.stock order-4711 --why "rolled back by hand, ticket 881"
  sekali dlq redrive --key order-4711`,
		Args: exactly("CONSUMER", "KEY"),
	}
	c.Flags().StringVar(&why, "why", "", "reason, kept in the audit (required)")
	c.RunE = func(c *cobra.Command, args []string) error {
		note, err := a.note(why)
		if err != nil {
			return err
		}
		o, consumer, err := a.registered(c.Context(), args[0])
		if err != nil {
			return err
		}
		records, err := o.lookup(c.Context(), consumer.Name, args[1])
		if err != nil {
			return err
		}
		if len(records) > 1 && records[0].Found && records[1].Found {
			return failf("key %q is the printed form of one claim and the key of another: look at both with \"sekali explain\" and ask the authors of the producer", args[1])
		}
		claim := records[0].Claim
		if !records[0].Found {
			return failf("consumer %s has no claim of key %s: nothing to forget; the next copy runs anyway", consumer.Name, claim.Key)
		}
		if err := a.ask(c.Context(), "This forgets that "+consumer.Name+" processed "+claim.Key); err != nil {
			return err
		}
		was, err := o.box.Forget(c.Context(), inbox.Claim{Consumer: consumer.Name, Key: claim.Key}, note)
		if err != nil {
			return o.source.Explain(err)
		}
		if !was {
			return failf("consumer %s has no claim of key %s any more: somebody else was faster", consumer.Name, claim.Key)
		}
		p := a.printer()
		return p.Object(doneOut{Inbox: o.name, Consumer: consumer.Name, Done: "forgotten", Detail: claim.Key}, func() {
			p.Linef("Forgotten: %s of %s (it was %s).", claim.Key, consumer.Name, sayClaim(records[0]))
			p.Linef("Next: the next copy runs again. To send its letter: sekali dlq redrive --key '%s'", claim.Key)
		})
	}
	return c
}
