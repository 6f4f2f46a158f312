package main

import (
	"context"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/report"
	"github.com/sekali-mq/sekali/dlq"
)

const defaultLimit = 50

func (a *app) dlqList() *cobra.Command {
	var f filter
	var oldest bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List letters with what is proven of them",
		Long: `Lists the letters that need somebody (waiting, sending, parked), newest first, each
with its verdict as of now. --state all lists the rest too.

It never changes a letter, and takes nothing from the broker.`,
		Example: "  sekali dlq list --queue orders.stock\n  sekali dlq list --verdict unknown --limit 0 --json",
		Args:    cobra.NoArgs,
	}
	f.register(c, defaultLimit)
	c.Flags().BoolVar(&oldest, "oldest", false, "oldest first")
	c.RunE = func(c *cobra.Command, _ []string) error {
		chosen, err := f.filter(nil, open...)
		if err != nil {
			return err
		}
		order := dlq.NewestFirst
		if oldest {
			order = dlq.OldestFirst
		}
		l, err := a.letters(c.Context(), dlq.Config{AllowLossOnCrash: true})
		if err != nil {
			return err
		}
		return a.list(c.Context(), l, chosen, order)
	}
	return c
}

// page is how many letters are judged at once.
const page = 200

func (a *app) list(ctx context.Context, l *openLetters, f dlq.Filter, order dlq.Order) error {
	table := newLetters(a.printer())
	rows := 0
	var waiting []*dlq.Letter
	flush := func() error {
		judged, err := l.Judge(ctx, waiting...)
		if err != nil {
			return l.explain(err)
		}
		for i, letter := range waiting {
			if err := table.Add(letterRow{letter, judged[i]}); err != nil {
				return err
			}
		}
		waiting = waiting[:0]
		return nil
	}
	for letter, err := range l.Each(ctx, f, order) {
		if err != nil {
			return l.explain(err)
		}
		rows++
		if waiting = append(waiting, letter); len(waiting) == page {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	if err := table.End("No letters."); err != nil {
		return err
	}
	if f.Limit > 0 && rows == f.Limit {
		a.sayf("(the first %d; --limit 0 lists all)", rows)
	}
	return nil
}

type letterRow struct {
	letter *dlq.Letter
	judged dlq.Judgement
}

func newLetters(p *report.Printer) *report.Table[letterRow] {
	return report.NewTable(p, func(r letterRow) any { return newLetterOut(r.letter, &r.judged) },
		report.Column[letterRow]{Head: "ID", Cell: func(r letterRow) string { return strconv.FormatInt(r.letter.ID, 10) }},
		report.Column[letterRow]{Head: "STATE", Cell: func(r letterRow) string { return string(r.letter.State) }},
		report.Column[letterRow]{Head: "VERDICT", Cell: func(r letterRow) string { return string(r.judged.Verdict) }},
		report.Column[letterRow]{Head: "QUEUE", Cell: func(r letterRow) string { return r.letter.Queue }},
		report.Column[letterRow]{Head: "KEY", Cell: func(r letterRow) string { return report.Short(r.letter.Key, 40) }},
		report.Column[letterRow]{Head: "AGE", Cell: func(r letterRow) string { return report.Duration(r.letter.Age) }},
		report.Column[letterRow]{Head: "SEEN", Cell: func(r letterRow) string { return strconv.Itoa(r.letter.Seen) }},
		report.Column[letterRow]{Head: "REDRIVES", Cell: func(r letterRow) string { return strconv.Itoa(r.letter.Redrives) }},
		report.Column[letterRow]{Head: "REASON", Cell: func(r letterRow) string { return string(r.letter.Reason) }},
		report.Column[letterRow]{Head: "ERROR", Cell: func(r letterRow) string { return report.Short(r.letter.Error, 60) }},
	)
}

// letterOut is a letter in JSON.
type letterOut struct {
	ID           int64      `json:"id"`
	State        string     `json:"state"`
	Queue        string     `json:"queue"`
	Source       string     `json:"source"`
	Consumer     string     `json:"consumer,omitempty"`
	Key          string     `json:"key,omitempty"`
	NoKey        string     `json:"no_key,omitempty"`
	Fingerprint  string     `json:"fingerprint,omitempty"`
	Reason       string     `json:"reason"`
	Error        string     `json:"error,omitempty"`
	Kind         string     `json:"kind"`
	Attempts     int        `json:"attempts"`
	FirstFailure *time.Time `json:"first_failure,omitempty"`
	DiedAt       *time.Time `json:"died_at,omitempty"`
	ClaimedAt    *time.Time `json:"claimed_at,omitempty"`
	CollectedAt  *time.Time `json:"collected_at,omitempty"`
	ChangedAt    *time.Time `json:"changed_at,omitempty"`
	AgeSeconds   int64      `json:"age_seconds"`
	Seen         int        `json:"seen"`
	Redrives     int        `json:"redrives"`
	Run          string     `json:"run,omitempty"`
	CopyOf       int64      `json:"copy_of,omitempty"`
	MergedInto   int64      `json:"merged_into,omitempty"`
	Size         int64      `json:"size"`
	Verdict      string     `json:"verdict,omitempty"`
	Why          string     `json:"why,omitempty"`
	Inbox        string     `json:"inbox,omitempty"`
}

func newLetterOut(l *dlq.Letter, j *dlq.Judgement) letterOut {
	out := letterOut{
		ID: l.ID, State: string(l.State), Queue: l.Queue, Source: l.Source, Consumer: l.Consumer, Key: l.Key, NoKey: l.NoKey,
		Fingerprint: hex.EncodeToString(l.Fingerprint), Reason: string(l.Reason), Error: l.Error, Kind: l.Kind, Attempts: l.Attempts,
		FirstFailure: report.Stamp(l.FirstFailure), DiedAt: report.Stamp(l.DiedAt), ClaimedAt: report.Stamp(l.ClaimedAt),
		CollectedAt: report.Stamp(l.CollectedAt), ChangedAt: report.Stamp(l.ChangedAt), AgeSeconds: int64(l.Age / time.Second),
		Seen: l.Seen, Redrives: l.Redrives, Run: l.Run, CopyOf: l.CopyOf, MergedInto: l.MergedInto, Size: l.Size,
	}
	if j != nil {
		out.Verdict, out.Why, out.Inbox = string(j.Verdict), j.Why, j.Inbox
	}
	return out
}
