package main

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/report"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

func (a *app) inboxStats() *cobra.Command {
	return &cobra.Command{
		Use:   "stats [CONSUMER...]",
		Short: "Consumers, how many claims they have, and whether they are held",
		Long: `Counts the claims of all consumers, or of those that are named. SPLIT are claims
whose handler ended the transaction: their letters need a decision. HORIZON is
the time before which a missing claim proves nothing.

Counting reads the whole index: seconds with millions of claims, without
blocking anybody. It never changes anything.`,
		Example: "  sekali inbox stats\n  sekali inbox stats orders.stock --json",
		RunE: func(c *cobra.Command, names []string) error {
			all, err := a.inboxes(c.Context())
			if err != nil {
				return err
			}
			return a.stats(c.Context(), all, names)
		},
	}
}

func (a *app) stats(ctx context.Context, all []openInbox, names []string) error {
	table := report.NewTable(a.printer(), func(r statsRow) any { return r.out() },
		report.Column[statsRow]{Head: "INBOX", Cell: func(r statsRow) string { return r.inbox }},
		report.Column[statsRow]{Head: "CONSUMER", Cell: func(r statsRow) string { return r.consumer.Name }},
		report.Column[statsRow]{Head: "QUEUE", Cell: func(r statsRow) string { return r.consumer.Queue }},
		report.Column[statsRow]{Head: "MODE", Cell: func(r statsRow) string { return r.mode() }},
		report.Column[statsRow]{Head: "CLAIMS", Cell: func(r statsRow) string { return strconv.FormatInt(r.stats.Claims, 10) }},
		report.Column[statsRow]{Head: "SPLIT", Cell: func(r statsRow) string { return strconv.FormatInt(r.stats.Splits, 10) }},
		report.Column[statsRow]{Head: "OLDEST", Cell: func(r statsRow) string { return report.Time(r.stats.Oldest) }},
		report.Column[statsRow]{Head: "NEWEST", Cell: func(r statsRow) string { return report.Time(r.stats.Newest) }},
		report.Column[statsRow]{Head: "HORIZON", Cell: func(r statsRow) string { return report.Time(r.consumer.Horizon) }},
	)
	missing := slices.Clone(names)
	var known []string
	for _, o := range all {
		consumers, err := o.box.Consumers(ctx)
		if err != nil {
			return o.source.Explain(err)
		}
		for _, c := range consumers {
			known = append(known, c.Name)
			if len(names) > 0 && !slices.Contains(names, c.Name) {
				continue
			}
			missing = slices.DeleteFunc(missing, func(n string) bool { return n == c.Name })
			s, err := o.box.Stats(ctx, c.Name)
			if err != nil {
				return o.source.Explain(err)
			}
			if err := table.Add(statsRow{inbox: o.name, consumer: c, stats: s}); err != nil {
				return err
			}
		}
	}
	if err := table.End("No consumer is registered yet: a service registers its own when it starts."); err != nil {
		return err
	}
	if len(missing) > 0 {
		return failf("there is no consumer %q: %s", missing[0], whichConsumers(known))
	}
	return nil
}

type statsRow struct {
	inbox    string
	consumer inbox.Consumer
	stats    inbox.Stats
}

func (r statsRow) mode() string {
	if r.consumer.Held() {
		return r.consumer.Mode.String() + ", held"
	}
	return r.consumer.Mode.String()
}

// consumerOut is a consumer in JSON.
type consumerOut struct {
	Inbox       string     `json:"inbox"`
	Consumer    string     `json:"consumer"`
	Service     string     `json:"service"`
	Queue       string     `json:"queue"`
	KeyRule     string     `json:"key_rule"`
	Mode        string     `json:"mode"`
	Horizon     *time.Time `json:"horizon,omitempty"`
	FormerNames []string   `json:"former_names,omitempty"`
	HeldSince   *time.Time `json:"held_since,omitempty"`
	HeldBy      string     `json:"held_by,omitempty"`
	HeldWhy     string     `json:"held_why,omitempty"`
}

func newConsumerOut(inboxName string, c inbox.Consumer) consumerOut {
	return consumerOut{
		Inbox: inboxName, Consumer: c.Name, Service: c.Service, Queue: c.Queue, KeyRule: c.KeyRule, Mode: c.Mode.String(),
		Horizon: report.Stamp(c.Horizon), FormerNames: c.FormerNames, HeldSince: report.Stamp(c.HeldSince), HeldBy: c.HeldBy, HeldWhy: c.HeldWhy,
	}
}

type statsOut struct {
	consumerOut

	Claims int64      `json:"claims"`
	Splits int64      `json:"splits"`
	Oldest *time.Time `json:"oldest,omitempty"`
	Newest *time.Time `json:"newest,omitempty"`
}

func (r statsRow) out() statsOut {
	return statsOut{
		consumerOut: newConsumerOut(r.inbox, r.consumer), Claims: r.stats.Claims, Splits: r.stats.Splits,
		Oldest: report.Stamp(r.stats.Oldest), Newest: report.Stamp(r.stats.Newest),
	}
}
