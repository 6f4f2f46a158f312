package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/dlq"
)

// act is one thing that an operator does to letters.
type act struct {
	use, short, long, example string
	verb, done                string
	do                        func(ctx context.Context, l *dlq.Letters, f dlq.Filter, n dlq.Note) (int64, error)
	next                      string
}

func (a *app) act(what act) *cobra.Command {
	var f filter
	var why string
	c := &cobra.Command{Use: what.use, Short: what.short, Long: what.long, Example: what.example}
	f.register(c, 0)
	c.Flags().StringVar(&why, "why", "", "reason, kept in each letter's history (required)")
	c.RunE = func(c *cobra.Command, ids []string) error {
		// Without --state each act takes the states that it is for.
		chosen, err := f.filter(ids)
		if err != nil {
			return err
		}
		note, err := a.note(why)
		if err != nil {
			return err
		}
		if err := a.whole(c.Context(), &f, ids, &chosen, "This "+what.verb+" all letters"); err != nil {
			return err
		}
		l, err := a.letters(c.Context(), dlq.Config{AllowLossOnCrash: true})
		if err != nil {
			return err
		}
		n, err := what.do(c.Context(), l.Letters, chosen, dlq.Note{Who: note.Who, Why: note.Why})
		if err != nil {
			return l.explain(err)
		}
		p := a.printer()
		return p.Object(struct {
			Done    string `json:"done"`
			Letters int64  `json:"letters"`
		}{what.done, n}, func() {
			if n == 0 {
				p.Linef("No letter was %s: none of those in question is in a state for it (see sekali dlq list --state all).", what.done)
				return
			}
			p.Linef("%s %s.", plural(n, "letter"), what.done)
			p.Linef("Next: %s", what.next)
		})
	}
	return c
}

func (a *app) dlqPark() *cobra.Command {
	return a.act(act{
		use: "park [ID...] --why TEXT", short: "Set letters aside: no redrive takes them", verb: "parks", done: "parked",
		long: `Sets letters aside that must not be sent with the others: those of a bug that is not
fixed yet, or that somebody has to decide. They still count as open.

It never sends or deletes anything. Back with: sekali dlq reopen.`,
		example: "  sekali dlq park 4711 4712 --why \"asked the shop, ticket 881\"\n  sekali dlq park --kind K --why \"fix is on its way\"",
		do: func(ctx context.Context, l *dlq.Letters, f dlq.Filter, n dlq.Note) (int64, error) {
			return l.Park(ctx, f, n)
		},
		next: "a redrive leaves them alone; sekali dlq reopen lets them wait again.",
	})
}

func (a *app) dlqReopen() *cobra.Command {
	return a.act(act{
		use: "reopen [ID...] --why TEXT", short: "Let parked or discarded letters wait again", verb: "reopens", done: "reopened",
		long: `Lets letters wait again that were parked or discarded; how often they were redriven
counts anew. Letters that are resolved, sent or left in sending are reopened only
with --state.

It never sends anything: a redrive does.`,
		example: "  sekali dlq reopen 4711 --why \"shop confirmed\"\n  sekali dlq reopen --state parked --kind K --why \"fixed in 1.4\"",
		do: func(ctx context.Context, l *dlq.Letters, f dlq.Filter, n dlq.Note) (int64, error) {
			return l.Reopen(ctx, f, n)
		},
		next: "sekali dlq redrive sends them.",
	})
}

func (a *app) dlqDiscard() *cobra.Command {
	return a.act(act{
		use: "discard [ID...] --why TEXT", short: "Give letters up", verb: "discards", done: "discarded",
		long: `Gives letters up that must never take effect. They stay in the table, readable and
reopenable, until retention removes them.

It never deletes anything at once, and does not touch the inbox or the broker.`,
		example: "  sekali dlq discard 4711 --why \"test order\"",
		do: func(ctx context.Context, l *dlq.Letters, f dlq.Filter, n dlq.Note) (int64, error) {
			return l.Discard(ctx, f, n)
		},
		next: "nothing; sekali dlq reopen takes it back.",
	})
}
