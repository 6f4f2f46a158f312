package main

import (
	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/dlq"
)

func (a *app) dlqCollect() *cobra.Command {
	o := collectOptions{concurrency: 8}
	c := &cobra.Command{
		Use:   "collect DLQ...",
		Short: "Move letters from dead letter queues into the table",
		Long: `Takes the letters out of dead letter queues and stores them, with every property,
header type and byte as it was; each is acknowledged after its row is committed. It
runs until it is interrupted, or with --until-empty until the queues are empty.
Several may run at once.

Alarms on the depth of these queues go quiet: use "sekali dlq count --fail-over N"
in their place. What the database refuses goes, confirmed, to <DLQ>.unstorable if
there is such a queue, else it stays.

It never sends a letter back, and never runs a handler.`,
		Example: `  sekali dlq collect orders.stock.dlq --until-empty
  sekali dlq collect orders.stock.dlq orders.mail.dlq`,
		Args: atLeast(1, "DLQ"),
	}
	c.Flags().BoolVar(&o.untilEmpty, "until-empty", false, "end when the queues are empty")
	c.Flags().IntVar(&o.concurrency, "concurrency", o.concurrency, "letters of one queue that are stored at once")
	c.Flags().StringVar(&o.queue, "died-in", "", "`queue` that letters died in which do not tell; the DLQ's name without .dlq by default")
	c.Flags().BoolVar(&o.allowLoss, "allow-loss-on-crash", false, "take a database that may lose its last commits, and letters with them, in a crash")
	c.RunE = func(c *cobra.Command, queues []string) error {
		if o.concurrency < 1 {
			return usagef("--concurrency is %d: must be positive", o.concurrency)
		}
		l, err := a.letters(c.Context(), dlq.Config{AllowLossOnCrash: o.allowLoss})
		if err != nil {
			return err
		}
		b, err := a.broker(c.Context())
		if err != nil {
			return err
		}
		return a.collect(c.Context(), l, b, queues, o)
	}
	return c
}

type collectOptions struct {
	untilEmpty  bool
	concurrency int
	queue       string
	allowLoss   bool
}

type collectedOut struct {
	Queue     string `json:"queue"`
	Collected int64  `json:"collected"`
	Failed    int64  `json:"failed,omitempty"`
	Left      int    `json:"left"`
}
