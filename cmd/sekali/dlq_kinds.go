package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/report"
	"github.com/sekali-mq/sekali/dlq"
)

func (a *app) dlqKinds() *cobra.Command {
	var f filter
	c := &cobra.Command{
		Use:   "kinds",
		Short: "Group letters by queue, reason and error: where to begin",
		Long: `Groups the letters that need somebody by the queue they died in, the reason, and the
shape of the error (digits and ids masked), largest group first. KIND is for --kind
of list, redrive, park and discard; EXAMPLE is the newest letter of the group.

It never changes a letter.`,
		Example: "  sekali dlq kinds\n  sekali dlq kinds --queue orders.stock --max-age 24h",
		Args:    cobra.NoArgs,
	}
	f.register(c, 0)
	c.RunE = func(c *cobra.Command, _ []string) error {
		chosen, err := f.filter(nil, open...)
		if err != nil {
			return err
		}
		if len(chosen.Headers)+len(chosen.Verdicts) > 0 || chosen.Limit > 0 {
			return usagef("kinds are counted by the database: --header, --verdict and --limit are for sekali dlq list")
		}
		l, err := a.letters(c.Context(), dlq.Config{AllowLossOnCrash: true})
		if err != nil {
			return err
		}
		kinds, err := l.Kinds(c.Context(), chosen)
		if err != nil {
			return l.explain(err)
		}
		table := report.NewTable(a.printer(), func(k dlq.Kind) any { return newKindOut(k) },
			report.Column[dlq.Kind]{Head: "COUNT", Cell: func(k dlq.Kind) string { return strconv.FormatInt(k.Count, 10) }},
			report.Column[dlq.Kind]{Head: "KIND", Cell: func(k dlq.Kind) string { return k.ID }},
			report.Column[dlq.Kind]{Head: "QUEUE", Cell: func(k dlq.Kind) string { return k.Queue }},
			report.Column[dlq.Kind]{Head: "REASON", Cell: func(k dlq.Kind) string { return string(k.Reason) }},
			report.Column[dlq.Kind]{Head: "OLDEST", Cell: func(k dlq.Kind) string { return report.Time(k.Oldest) }},
			report.Column[dlq.Kind]{Head: "NEWEST", Cell: func(k dlq.Kind) string { return report.Time(k.Newest) }},
			report.Column[dlq.Kind]{Head: "EXAMPLE", Cell: func(k dlq.Kind) string { return strconv.FormatInt(k.Example, 10) }},
			report.Column[dlq.Kind]{Head: "ERROR", Cell: func(k dlq.Kind) string { return report.Short(k.Shape, 80) }},
		)
		for _, k := range kinds {
			if err := table.Add(k); err != nil {
				return err
			}
		}
		return table.End("No letters.")
	}
	return c
}

type kindOut struct {
	Kind    string     `json:"kind"`
	Queue   string     `json:"queue"`
	Reason  string     `json:"reason"`
	Shape   string     `json:"shape"`
	Count   int64      `json:"count"`
	Oldest  *time.Time `json:"oldest,omitempty"`
	Newest  *time.Time `json:"newest,omitempty"`
	Example int64      `json:"example"`
}

func newKindOut(k dlq.Kind) kindOut {
	return kindOut{k.ID, k.Queue, string(k.Reason), k.Shape, k.Count, report.Stamp(k.Oldest), report.Stamp(k.Newest), k.Example}
}
