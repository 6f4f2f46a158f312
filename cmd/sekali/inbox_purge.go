package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/report"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

func (a *app) inboxPurge() *cobra.Command {
	var why string
	var o inbox.PurgeOptions
	c := &cobra.Command{
		Use:   "purge CONSUMER --keep DURATION --why TEXT",
		Short: "Delete claims that are older than they need to be",
		Long: `Deletes the claims of a consumer that are older than --keep, in small steps, while
the services run; it moves the consumer's horizon first. Keep them longer than any
copy can take to come: the longest wait in a queue, retries, the producers' resend
window, and the age of the oldest letter.

With the letters' database at hand (--db) the claims that open letters need are
kept. Split claims are kept until no letter of theirs is open. Interrupt it at any
time: what is deleted is deleted, the next call goes on.`,
		Example: `  sekali inbox purge orders.stock --keep 720h --why "monthly"`,
		Args:    exactly("CONSUMER"),
	}
	c.Flags().StringVar(&why, "why", "", "reason, kept in the audit (required)")
	c.Flags().DurationVar(&o.Keep, "keep", 0, "claims younger than this stay (required), as in 720h")
	c.Flags().IntVar(&o.Batch, "batch", 0, "rows looked at in one step; 0 is the inbox's default")
	c.Flags().DurationVar(&o.Pause, "pause", 0, "pause between steps; 0 is the inbox's default")
	c.RunE = func(c *cobra.Command, args []string) error {
		if o.Keep <= 0 {
			return usagef("--keep is missing: how old a claim must be to go, as in --keep 720h")
		}
		var err error
		if o.Note, err = a.note(why); err != nil {
			return err
		}
		in, consumer, err := a.registered(c.Context(), args[0])
		if err != nil {
			return err
		}
		if err := a.ask(c.Context(), "This deletes all claims of "+consumer.Name+" that are older than "+report.Duration(o.Keep)); err != nil {
			return err
		}
		if o.Hold, err = a.neededByLetters(c.Context(), in, consumer); err != nil {
			return err
		}
		return a.purge(c.Context(), in, consumer, o)
	}
	return c
}

type purgedOut struct {
	Inbox    string     `json:"inbox"`
	Consumer string     `json:"consumer"`
	Looked   int64      `json:"looked"`
	Deleted  int64      `json:"deleted"`
	Kept     int64      `json:"kept"`
	Splits   int64      `json:"splits"`
	Cutoff   *time.Time `json:"cutoff,omitempty"`
	Horizon  *time.Time `json:"horizon,omitempty"`
	Busy     bool       `json:"busy,omitempty"`
	Complete bool       `json:"complete"`
}

func (a *app) purge(ctx context.Context, in openInbox, consumer inbox.Consumer, o inbox.PurgeOptions) error {
	bar := report.NewProgress(a.stderr, "rows looked at")
	o.Progress = func(p inbox.Purged) { bar.Show(p.Looked, 0) }
	got, err := in.box.Purge(ctx, consumer.Name, o)
	bar.End()
	interrupted := err != nil && ctx.Err() != nil
	if err != nil && !interrupted {
		return in.source.Explain(err)
	}
	p := a.printer()
	out := purgedOut{in.name, consumer.Name, got.Looked, got.Deleted, got.Kept, got.Splits, report.Stamp(got.Cutoff), report.Stamp(got.Horizon), got.Busy, !got.Busy && !interrupted}
	if err := p.Object(out, func() {
		p.Linef("Deleted: %s of %s, of %d looked at.", plural(got.Deleted, "claim"), consumer.Name, got.Looked)
		if got.Kept > 0 {
			p.Linef("Kept for letters that are open: %d.", got.Kept)
		}
		if got.Splits > 0 {
			p.Linef("Kept: %s; see their letters: sekali dlq list --verdict split", plural(got.Splits, "split claim"))
		}
		p.Linef("Horizon: %s. A missing claim of older work proves nothing from now on.", report.Time(got.Horizon))
	}); err != nil {
		return err
	}
	switch {
	case interrupted:
		return leftf("interrupted: older claims are left; the same command goes on where it stopped")
	case got.Busy:
		return leftf("another purge of %s is at work: it deletes what is left; run this again if it does not", consumer.Name)
	}
	return nil
}
