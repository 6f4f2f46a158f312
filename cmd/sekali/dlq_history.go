package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/report"
	"github.com/sekali-mq/sekali/dlq"
)

func (a *app) dlqHistory() *cobra.Command {
	return &cobra.Command{
		Use:   "history ID",
		Short: "What happened to one letter, and who did it",
		Long: `Lists all that was ever done with a letter, oldest first, by the clock of the
letters' database. Lines are only added. It never changes the letter.`,
		Example: "  sekali dlq history 4711",
		Args:    exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := letterID(args[0])
			if err != nil {
				return err
			}
			l, err := a.letters(c.Context(), dlq.Config{AllowLossOnCrash: true})
			if err != nil {
				return err
			}
			events, err := l.History(c.Context(), id)
			if err != nil {
				return l.explain(err)
			}
			table := newEvents(a.printer())
			for _, e := range events {
				if err := table.Add(e); err != nil {
					return err
				}
			}
			return table.End("Nothing.")
		},
	}
}

func letterID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return 0, usagef("%q is no id of a letter: ids are the numbers in the first column of sekali dlq list", text)
	}
	return id, nil
}

type eventOut struct {
	Letter int64      `json:"letter"`
	At     *time.Time `json:"at"`
	What   string     `json:"what"`
	State  string     `json:"state"`
	Run    string     `json:"run,omitempty"`
	N      int        `json:"n,omitempty"`
	Who    string     `json:"who,omitempty"`
	Why    string     `json:"why,omitempty"`
	Text   string     `json:"text,omitempty"`
}

func newEventOut(e dlq.Event) eventOut {
	return eventOut{e.Letter, report.Stamp(e.At), e.What, string(e.State), e.Run, e.N, e.Who, e.Why, e.Text}
}

func newEvents(p *report.Printer) *report.Table[dlq.Event] {
	return report.NewTable(p, func(e dlq.Event) any { return newEventOut(e) },
		report.Column[dlq.Event]{Head: "AT", Cell: func(e dlq.Event) string { return report.Time(e.At) }},
		report.Column[dlq.Event]{Head: "WHAT", Cell: func(e dlq.Event) string { return e.What }},
		report.Column[dlq.Event]{Head: "STATE", Cell: func(e dlq.Event) string { return string(e.State) }},
		report.Column[dlq.Event]{Head: "RUN", Cell: func(e dlq.Event) string { return e.Run }},
		report.Column[dlq.Event]{Head: "WHO", Cell: func(e dlq.Event) string { return e.Who }},
		report.Column[dlq.Event]{Head: "WHY", Cell: func(e dlq.Event) string { return e.Why }},
		report.Column[dlq.Event]{Head: "TEXT", Cell: func(e dlq.Event) string { return report.Short(e.Text, 100) }},
	)
}
