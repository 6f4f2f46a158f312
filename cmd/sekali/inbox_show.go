package main

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/report"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

func (a *app) inboxShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show CONSUMER [KEY...]",
		Short: "One consumer, or its claims of some keys",
		Long: `Shows what is registered of a consumer: its queue, key rule, mode, horizon, former
names, and who holds it. With keys it shows whether each was processed, and when.

A key is given as the message has it, or as sekali prints it ("sha256:..." for
keys that are long or not plain text). It never changes anything.`,
		Example: "  sekali inbox show orders.stock\n  sekali inbox show orders.stock order-4711",
		Args:    atLeast(1, "CONSUMER"),
		RunE: func(c *cobra.Command, args []string) error {
			o, consumer, err := a.registered(c.Context(), args[0])
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return a.showConsumer(o, consumer)
			}
			return a.showClaims(c.Context(), o, consumer, args[1:])
		},
	}
}

func (a *app) showConsumer(o openInbox, c inbox.Consumer) error {
	p := a.printer()
	return p.Object(newConsumerOut(o.name, c), func() {
		held := ""
		if c.Held() {
			held = "since " + report.Time(c.HeldSince) + " by " + c.HeldBy + ": " + c.HeldWhy
		}
		p.Fields("Consumer", c.Name, "Inbox", o.name+", "+o.source.String(), "Service", c.Service, "Queue", c.Queue, "Key rule", c.KeyRule,
			"Mode", c.Mode.String(), "Held", held, "Horizon", report.Time(c.Horizon)+" (a missing claim of older work proves nothing)",
			"Former names", strings.Join(c.FormerNames, ", "))
	})
}

// claimOut is a claim in JSON.
type claimOut struct {
	Inbox       string     `json:"inbox"`
	Consumer    string     `json:"consumer"`
	Key         string     `json:"key"`
	Found       bool       `json:"found"`
	Split       bool       `json:"split,omitempty"`
	ProcessedAt *time.Time `json:"processed_at,omitempty"`
	Fingerprint string     `json:"fingerprint,omitempty"`
	Horizon     *time.Time `json:"horizon,omitempty"`
}

func newClaimOut(inboxName string, r inbox.Record) claimOut {
	out := claimOut{Inbox: inboxName, Consumer: r.Claim.Consumer, Key: r.Claim.Key, Found: r.Found, Split: r.Split(), Horizon: report.Stamp(r.Horizon)}
	if r.Found {
		out.ProcessedAt = report.Stamp(r.ProcessedAt)
		if !r.Split() {
			out.Fingerprint = hex.EncodeToString(r.Fingerprint)
		}
	}
	return out
}

// sayClaim tells what a claim proves.
func sayClaim(r inbox.Record) string {
	switch {
	case r.Split():
		return "split at " + report.Time(r.ProcessedAt) + ": its handler ended the transaction, find out what it wrote"
	case r.Found:
		return "processed at " + report.Time(r.ProcessedAt)
	case r.Horizon.IsZero():
		return "no claim"
	}
	return "no claim; not processed since " + report.Time(r.Horizon)
}

func (a *app) showClaims(ctx context.Context, o openInbox, c inbox.Consumer, keys []string) error {
	p := a.printer()
	table := report.NewTable(p, func(r inbox.Record) any { return newClaimOut(o.name, r) },
		report.Column[inbox.Record]{Head: "KEY", Cell: func(r inbox.Record) string { return r.Claim.Key }},
		report.Column[inbox.Record]{Head: "CLAIM", Cell: sayClaim},
		report.Column[inbox.Record]{Head: "FINGERPRINT", Cell: func(r inbox.Record) string { return newClaimOut(o.name, r).Fingerprint }},
	)
	for _, key := range keys {
		records, err := o.lookup(ctx, c.Name, key)
		if err != nil {
			return err
		}
		if err := table.Add(records[0]); err != nil {
			return err
		}
	}
	return table.End("")
}

// lookup finds the claims of a key that an operator typed: the forms that it may
// have in the table, those that were found first.
func (o openInbox) lookup(ctx context.Context, consumer, key string) ([]inbox.Record, error) {
	var claims []inbox.Claim
	for _, form := range storedForms(key) {
		claims = append(claims, inbox.Claim{Consumer: consumer, Key: form})
	}
	records, err := o.box.LookupStored(ctx, claims...)
	if err != nil {
		return nil, o.source.Explain(err)
	}
	if len(records) > 1 && records[1].Found && !records[0].Found {
		records[0], records[1] = records[1], records[0]
	}
	return records, nil
}

// storedForms of a key as an operator types it: as it is where it is a printed
// one already, and as the inbox stores it.
func storedForms(key string) []string {
	const prefix, digits = "sha256:", 64
	forms := []string{inbox.StoredKey(key)}
	if digest, ok := strings.CutPrefix(key, prefix); ok && len(digest) == digits {
		if _, err := hex.DecodeString(digest); err == nil {
			forms = append([]string{key}, forms...)
		}
	}
	return forms
}
