package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) inboxRename() *cobra.Command {
	var why string
	var stopped bool
	c := &cobra.Command{
		Use:   "rename FROM TO --why TEXT",
		Short: "Give a consumer another name, with all its claims",
		Long: `Moves a consumer's row and all its claims to another name, in one transaction, so
that messages which were processed under the old name are recognised under the new
one. Letters of the old name are found under the new one.

Hold the consumer first and wait until nothing runs (the command says when), or stop
all its processes and say so with --stopped. Then deploy the version with the new
name. It never leaves a claim behind, if --deadline is no shorter than the longest
Deadline, and --lock-wait than the longest LockWait, that its services are given.`,
		Example: `  sekali hold stock --why "renaming"
  sekali inbox rename stock orders.stock --why "one name per queue"
  sekali resume orders.stock --why "renamed"`,
		Args: exactly("FROM", "TO"),
	}
	c.Flags().StringVar(&why, "why", "", "reason, kept in the audit (required)")
	c.Flags().BoolVar(&stopped, "stopped", false, "all processes of the consumer are stopped: I have looked")
	c.Flags().DurationVar(&a.bounds.Deadline, "deadline", 0, "longest transaction of its services; 0 is the default of 1m")
	c.Flags().DurationVar(&a.bounds.LockWait, "lock-wait", 0, "longest wait for a claim of its services; 0 is the default of 10s")
	c.RunE = func(c *cobra.Command, args []string) error {
		note, err := a.note(why)
		if err != nil {
			return err
		}
		o, consumer, err := a.registered(c.Context(), args[0])
		if err != nil {
			return err
		}
		if err := a.ask(c.Context(), fmt.Sprintf("This renames %s to %s, with all its claims", consumer.Name, args[1])); err != nil {
			return err
		}
		note.Stopped = stopped
		moved, err := o.box.Rename(c.Context(), consumer.Name, args[1], note)
		if err != nil {
			return failf("%s", strings.ReplaceAll(o.source.Explain(err).Error(), "say in the note", "say with --stopped"))
		}
		p := a.printer()
		return p.Object(struct {
			doneOut

			To     string `json:"to"`
			Claims int64  `json:"claims"`
		}{doneOut{Inbox: o.name, Consumer: consumer.Name, Done: "renamed"}, args[1], moved}, func() {
			p.Linef("Renamed: %s is %s now, with %s.", consumer.Name, args[1], plural(moved, "claim"))
			p.Linef("Next: deploy the version that has this name. A process with the old one is refused.")
			if consumer.Held() {
				p.Linef("It is still held. To go on: sekali resume %s", args[1])
			}
		})
	}
	return c
}
