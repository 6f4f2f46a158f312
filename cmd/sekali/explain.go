package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/report"
	"github.com/sekali-mq/sekali/cmd/sekali/internal/source"
	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

func (a *app) explainCommand() *cobra.Command {
	birth, birthSkew := "", skew
	c := &cobra.Command{
		Use:   "explain KEY",
		Short: "All that is known of one message: claims, letters, redrives, audit",
		Long: `Answers "was it done?" for one key: the claims of all consumers in all inboxes, the
letters with that key and what became of them, and what was done to its claims by
hand. A key is given as the message has it, or as sekali prints it.

It never changes anything, and takes nothing from the broker.`,
		Example: "  sekali explain order-4711\n  sekali explain order-4711 --json",
		Args:    exactly("KEY"),
	}
	registerBirth(c, &birth, &birthSkew)
	c.RunE = func(c *cobra.Command, args []string) error {
		all, err := a.inboxes(c.Context())
		if err != nil {
			return err
		}
		x := &explaining{app: a, p: a.printer(), forms: storedForms(args[0])}
		x.p.Linef("Key %s", report.Printable(a.secrets.Hide(args[0])))
		if x.forms[0] != args[0] {
			x.p.Linef("stored as %s", x.forms[0])
		}
		for _, part := range []func(context.Context, []openInbox) error{x.claims, x.acts, x.others} {
			if err := part(c.Context(), all); err != nil {
				return err
			}
		}
		return x.letters(c.Context(), args[0], dlq.Config{AllowLossOnCrash: true, BirthHeader: birth, BirthSkew: birthSkew})
	}
	return c
}

// explaining prints what is known of one key.
type explaining struct {
	app   *app
	p     *report.Printer
	forms []string // in which the key may be stored
}

// part is one line in JSON; its kind says which fields it has.
type part struct {
	Kind   string     `json:"kind"`
	Claim  *claimOut  `json:"claim,omitempty"`
	Act    *actOut    `json:"act,omitempty"`
	Letter *letterOut `json:"letter,omitempty"`
	Event  *eventOut  `json:"event,omitempty"`
	Rows   *rowsOut   `json:"rows,omitempty"`
}

type rowsOut struct {
	Inbox string `json:"inbox"`
	Table string `json:"table"`
	Count int64  `json:"count"`
}

func (x *explaining) head(text string) { x.p.Linef("\n%s", text) }

func (x *explaining) claims(ctx context.Context, all []openInbox) error {
	x.head("Claims")
	type row struct {
		inbox  string
		record inbox.Record
	}
	table := report.NewTable(x.p, func(r row) any { out := newClaimOut(r.inbox, r.record); return part{Kind: "claim", Claim: &out} },
		report.Column[row]{Head: "INBOX", Cell: func(r row) string { return r.inbox }},
		report.Column[row]{Head: "CONSUMER", Cell: func(r row) string { return r.record.Claim.Consumer }},
		report.Column[row]{Head: "CLAIM", Cell: func(r row) string { return sayClaim(r.record) }},
		report.Column[row]{Head: "FINGERPRINT", Cell: func(r row) string { return newClaimOut(r.inbox, r.record).Fingerprint }},
	)
	for _, o := range all {
		consumers, err := o.box.Consumers(ctx)
		if err != nil {
			return o.source.Explain(err)
		}
		for _, c := range consumers {
			var claims []inbox.Claim
			for _, form := range x.forms {
				claims = append(claims, inbox.Claim{Consumer: c.Name, Key: form})
			}
			records, err := o.box.LookupStored(ctx, claims...)
			if err != nil {
				return o.source.Explain(err)
			}
			if i := slices.IndexFunc(records, func(r inbox.Record) bool { return r.Found }); i > 0 {
				records = records[i:]
			}
			if err := table.Add(row{o.name, records[0]}); err != nil {
				return err
			}
		}
	}
	return table.End("no consumer is registered")
}

// actsOfKey is how far the audit is read back.
const actsOfKey = 10000

func (x *explaining) acts(ctx context.Context, all []openInbox) error {
	x.head("Done by hand to its claims")
	table := newActs(x.p)
	for _, o := range all {
		acts, err := o.box.Acts(ctx, actsOfKey)
		if err != nil {
			return o.source.Explain(err)
		}
		for _, act := range acts {
			if !slices.Contains(x.forms, act.Key) {
				continue
			}
			row := actRow{o.name, act}
			if x.p.JSON() {
				out := row.out()
				err = x.p.Object(part{Kind: "act", Act: &out}, nil)
			} else {
				err = table.Add(row)
			}
			if err != nil {
				return err
			}
		}
	}
	return table.End("nothing")
}

// others are tables of other rooms, which not every database has.
func (x *explaining) others(ctx context.Context, all []openInbox) error {
	for _, o := range all {
		for _, name := range []string{"sekali_effects", "sekali_outbox"} {
			columns, err := o.source.Columns(ctx, o.db, name)
			if err != nil {
				return err
			}
			if !slices.Contains(columns, "message_key") {
				continue
			}
			n, err := countKey(ctx, o, name, x.forms[0])
			if err != nil {
				return o.source.Explain(err)
			}
			if err := x.p.Object(part{Kind: "rows", Rows: &rowsOut{o.name, name, n}}, func() {
				x.p.Linef("\n%s of inbox %s: %s", name, o.name, plural(n, "row"))
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// countKey counts the rows of a key.
func countKey(ctx context.Context, o openInbox, table, key string) (n int64, err error) {
	mark := "?"
	if o.source.Kind == source.Postgres {
		mark = "$1"
	}
	err = o.db.QueryRowContext(ctx, fmt.Sprintf("SELECT count(*) FROM %s WHERE message_key = %s", table, mark), key).Scan(&n)
	return n, err
}

func (x *explaining) letters(ctx context.Context, key string, c dlq.Config) error {
	x.head("Letters")
	l, err := x.app.letters(ctx, c)
	if err != nil {
		// The claims are an answer already.
		if isA[*usageError](err) || isA[*sayError](err) {
			x.app.sayf("sekali: letters are not shown: %s", err)
			return nil
		}
		return err
	}
	var found []*dlq.Letter
	for letter, err := range l.Each(ctx, dlq.Filter{Key: key}, dlq.OldestFirst) {
		if err != nil {
			return l.explain(err)
		}
		found = append(found, letter)
	}
	judged, err := l.Judge(ctx, found...)
	if err != nil {
		return l.explain(err)
	}
	if len(found) == 0 {
		x.p.Linef("none in the table; one may still be in a dead letter queue")
	}
	for i, letter := range found {
		if err := x.letter(ctx, l, letter, judged[i]); err != nil {
			return err
		}
	}
	return nil
}

func (x *explaining) letter(ctx context.Context, l *openLetters, letter *dlq.Letter, j dlq.Judgement) error {
	events, err := l.History(ctx, letter.ID)
	if err != nil {
		return l.explain(err)
	}
	out := newLetterOut(letter, &j)
	if err := x.p.Object(part{Kind: "letter", Letter: &out}, func() {
		x.p.Linef("%d  %s, died in %s: %s", letter.ID, letter.State, report.Printable(letter.Queue), report.Printable(report.Short(letter.Error, 100)))
		x.p.Linef("   %s: %s", j.Verdict, report.Printable(j.Why))
	}); err != nil {
		return err
	}
	for _, e := range events {
		event := newEventOut(e)
		if err := x.p.Object(part{Kind: "event", Event: &event}, func() {
			x.p.Linef("   %s  %s %s", report.Time(e.At), e.What, report.Printable(eventText(e)))
		}); err != nil {
			return err
		}
	}
	x.p.Linef("   Next: %s", report.Printable(nextFor(letter, j)))
	return nil
}

func eventText(e dlq.Event) string {
	text := e.Text
	if e.Run != "" {
		text = "run " + e.Run + " " + text
	}
	if e.Who != "" {
		text += " (" + e.Who + ": " + e.Why + ")"
	}
	return text
}
