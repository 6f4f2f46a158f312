package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/report"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

func (a *app) inboxAudit() *cobra.Command {
	limit := 50
	c := &cobra.Command{
		Use:   "audit",
		Short: "Who changed what, when and why",
		Long: `Lists what was done on purpose to consumers and claims, newest first, by the
database's clock. What was done to letters is in "sekali dlq history". It never
changes anything.`,
		Example: "  sekali inbox audit --limit 10",
		Args:    cobra.NoArgs,
	}
	c.Flags().IntVar(&limit, "limit", limit, "how many to list")
	c.RunE = func(c *cobra.Command, _ []string) error {
		all, err := a.inboxes(c.Context())
		if err != nil {
			return err
		}
		table := newActs(a.printer())
		for _, o := range all {
			acts, err := o.box.Acts(c.Context(), limit)
			if err != nil {
				return o.source.Explain(err)
			}
			for _, act := range acts {
				if err := table.Add(actRow{o.name, act}); err != nil {
					return err
				}
			}
		}
		return table.End("Nothing was changed by hand yet.")
	}
	return c
}

type actRow struct {
	inbox string
	act   inbox.Act
}

func (r actRow) out() actOut {
	return actOut{
		Inbox: r.inbox, At: report.Stamp(r.act.At), Who: r.act.Who, Why: r.act.Why, Act: r.act.Act,
		Consumer: r.act.Consumer, Key: r.act.Key, Detail: r.act.Detail,
	}
}

type actOut struct {
	Inbox    string     `json:"inbox"`
	At       *time.Time `json:"at"`
	Who      string     `json:"who"`
	Why      string     `json:"why"`
	Act      string     `json:"act"`
	Consumer string     `json:"consumer,omitempty"`
	Key      string     `json:"key,omitempty"`
	Detail   string     `json:"detail,omitempty"`
}

func newActs(p *report.Printer) *report.Table[actRow] {
	return report.NewTable(p, func(r actRow) any { return r.out() },
		report.Column[actRow]{Head: "AT", Cell: func(r actRow) string { return report.Time(r.act.At) }},
		report.Column[actRow]{Head: "WHO", Cell: func(r actRow) string { return r.act.Who }},
		report.Column[actRow]{Head: "ACT", Cell: func(r actRow) string { return r.act.Act }},
		report.Column[actRow]{Head: "CONSUMER", Cell: func(r actRow) string { return r.act.Consumer }},
		report.Column[actRow]{Head: "KEY", Cell: func(r actRow) string { return report.Short(r.act.Key, 40) }},
		report.Column[actRow]{Head: "DETAIL", Cell: func(r actRow) string { return report.Short(r.act.Detail, 60) }},
		report.Column[actRow]{Head: "WHY", Cell: func(r actRow) string { return r.act.Why }},
	)
}
