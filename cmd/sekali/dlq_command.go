package main

import (
	"github.com/spf13/cobra"
)

func (a *app) dlqCommand() *cobra.Command {
	return group("dlq", "Dead letters: collect, look, judge, put back",
		`Dead letters are moved from the dead letter queues into a table ("collect"): looking
at a RabbitMQ queue changes it, looking at the table does not. There each letter
gets a verdict, from what the inbox can prove of it:

  new         never processed: a redrive sends it
  processed   its work is done: a redrive resolves it without sending
  conflict    its key was processed with other content: it stays
  split       its claim was committed without (all of) its writes: it stays
  unknown     nothing is proven: it stays, and show says why

A letter is in one of these states:

  waiting     a redrive may take it
  sending     a redrive stopped in the middle of it; the next one takes it up
  sent        put back and confirmed; it waits again if it dies again
  resolved    processed, or merged into another letter
  parked      set aside, by you or because it came back too often
  discarded   given up by you

A letter that is sent is a copy like any other: its consumer recognises its key.`,
		"  sekali dlq kinds\n  sekali dlq redrive --queue orders.stock --dry-run",
		a.dlqMigrate(), a.dlqCollect(), a.dlqKinds(), a.dlqList(), a.dlqShow(), a.dlqHistory(), a.dlqCount(), a.dlqRedrive(), a.dlqRuns(),
		a.dlqPark(), a.dlqReopen(), a.dlqDiscard())
}
