package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/report"
	"github.com/sekali-mq/sekali/dlq"
)

func (a *app) dlqRuns() *cobra.Command {
	limit := 20
	c := &cobra.Command{
		Use:   "runs [RUN]",
		Short: "Redrives: which there were, and what became of what one sent",
		Long: `Lists redrives, newest first. With a RUN it says what became of the letters that it
sent: their claims are looked up, and those that took effect are resolved.

It never sends anything. A run that is paused, or whose process is gone, goes on
with: sekali dlq redrive --resume RUN.`,
		Example: "  sekali dlq runs\n  sekali dlq runs RUN",
	}
	c.Flags().IntVar(&limit, "limit", limit, "how many to list")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usagef("give one RUN, or none to list them")
		}
		l, err := a.letters(c.Context(), dlq.Config{AllowLossOnCrash: true})
		if err != nil {
			return err
		}
		if len(args) == 1 {
			return a.fates(c.Context(), l, args[0])
		}
		runs, err := l.Runs(c.Context(), limit)
		if err != nil {
			return l.explain(err)
		}
		table := report.NewTable(a.printer(), func(r dlq.Run) any { return newRunOut(r, nil) },
			report.Column[dlq.Run]{Head: "RUN", Cell: func(r dlq.Run) string { return r.ID }},
			report.Column[dlq.Run]{Head: "BEGUN", Cell: func(r dlq.Run) string { return report.Time(r.BegunAt) }},
			report.Column[dlq.Run]{Head: "WHO", Cell: func(r dlq.Run) string { return r.Note.Who }},
			report.Column[dlq.Run]{Head: "LOOKED", Cell: func(r dlq.Run) string { return strconv.FormatInt(r.Counts.Looked, 10) }},
			report.Column[dlq.Run]{Head: "SENT", Cell: func(r dlq.Run) string { return strconv.FormatInt(r.Counts.Sent, 10) }},
			report.Column[dlq.Run]{Head: "RESOLVED", Cell: func(r dlq.Run) string { return strconv.FormatInt(r.Counts.Resolved, 10) }},
			report.Column[dlq.Run]{Head: "QUEUES", Cell: func(r dlq.Run) string { return strings.Join(r.Queues, ", ") }},
			report.Column[dlq.Run]{Head: "STATE", Cell: runState},
			report.Column[dlq.Run]{Head: "WHY", Cell: func(r dlq.Run) string { return r.Note.Why }},
		)
		for _, r := range runs {
			if err := table.Add(r); err != nil {
				return err
			}
		}
		return table.End("No redrive was run yet.")
	}
	return c
}

func (a *app) fates(ctx context.Context, l *openLetters, id string) error {
	run, err := l.Run(ctx, id)
	if err != nil {
		return l.explain(err)
	}
	f, err := l.Fates(ctx, id)
	if err != nil {
		return l.explain(err)
	}
	p := a.printer()
	return p.Object(newRunOut(run, &f), func() {
		p.Linef("Run %s: %s, begun %s by %s: %s", run.ID, runState(run), report.Time(run.BegunAt), report.Printable(run.Note.Who), report.Printable(run.Note.Why))
		_ = a.sayOutcomes(p, outcomes(run.Counts, false, run.ID))
		if run.Counts.Sent > 0 {
			p.Linef("\nOf those that were sent:")
			_ = a.sayOutcomes(p, []outcome{
				{"processed", f.Processed, "nothing, their work is done"},
				{"came back", f.Back, "sekali dlq kinds; mend the cause and redrive again"},
				{"nothing known yet", f.Open, "wait; or look at the queue and its consumer"},
				{"parked, discarded or sent by another run since", f.Other, "-"},
			})
		}
		if run.State == dlq.Paused || run.Stale {
			p.Linef("\nTo go on: sekali dlq redrive --resume %s", run.ID)
		}
	})
}
