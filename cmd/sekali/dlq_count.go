package main

import (
	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/dlq"
)

func (a *app) dlqCount() *cobra.Command {
	var f filter
	failOver := int64(-1)
	c := &cobra.Command{
		Use:   "count",
		Short: "Count letters, for monitoring",
		Long: `Counts the letters that need somebody: waiting, sending, parked. With --fail-over N
it ends with 3 when there are more than N, which takes the place of an alarm on the
depth of a dead letter queue that is collected.

It never changes a letter.`,
		Example: "  sekali dlq count --fail-over 0\n  sekali dlq count --queue orders.stock --state parked",
		Args:    cobra.NoArgs,
	}
	f.register(c, 0)
	c.Flags().Int64Var(&failOver, "fail-over", failOver, "end with 3 when there are more than `N`; -1 never")
	c.RunE = func(c *cobra.Command, _ []string) error {
		chosen, err := f.filter(nil, open...)
		if err != nil {
			return err
		}
		l, err := a.letters(c.Context(), dlq.Config{AllowLossOnCrash: true})
		if err != nil {
			return err
		}
		n, err := l.Count(c.Context(), chosen)
		if err != nil {
			return l.explain(err)
		}
		p := a.printer()
		if err := p.Object(struct {
			Count int64 `json:"count"`
		}{n}, func() { p.Linef("%d", n) }); err != nil {
			return err
		}
		if failOver >= 0 && n > failOver {
			return leftf("%s, more than %d: see sekali dlq kinds", plural(n, "letter"), failOver)
		}
		return nil
	}
	return c
}
