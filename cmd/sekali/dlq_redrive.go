package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/dlq"
)

// redriveFlags are those of a redrive besides the filter.
type redriveFlags struct {
	filter

	dryRun, keepGoing, asNew, acceptUnknown, trustKey bool
	rate, cap, batch                                  int
	birth                                             string
	birthSkew                                         time.Duration
	resume, cancel, why                               string
}

const redriveLong = `Puts letters back to the queues they died in, each one confirmed by the broker.
The inbox decides: new letters are sent, processed ones are resolved without
sending; conflict, split and unknown stay. A letter that is sent twice is recognised
by its consumer, as any copy is: its key takes effect once.

Before anything is sent it looks whether the inboxes answer and the queues exist,
and prints what will happen; --dry-run stops there. Ids, or flags, say which
letters; without any it asks (--yes in a script).

What it never does: force. Each exception has a name, and wants --why:
  --as-new          run it again under a new key, although it may have been done
  --accept-unknown  send letters of which nothing is proven: you have looked
  --trust-key       the claims keep no content to compare: the key is enough

Interrupt it at any time: nothing is lost or doubled, and it says how to go on. It
pauses by itself when 20 letters in a row came back (--keep-going does not).
Letters that came back 3 times are parked.

Ends with 0 when nothing is left of what was asked for, else with 3.`

func (a *app) dlqRedrive() *cobra.Command {
	var f redriveFlags
	c := &cobra.Command{
		Use:   "redrive [ID...]",
		Short: "Put letters back to the queues they died in",
		Long:  redriveLong,
		Example: `  sekali dlq redrive --queue orders.stock --dry-run
  sekali dlq redrive --queue orders.stock --error "connection refused"
  sekali dlq redrive 4711 --as-new --why "customer wants it twice"
  sekali dlq redrive --resume RUN`,
	}
	f.register(c)
	c.RunE = func(c *cobra.Command, ids []string) error {
		switch {
		case f.resume != "" && f.cancel != "":
			return usagef("--resume and --cancel: a run goes on or ends, choose one")
		case (f.resume != "" || f.cancel != "") && (f.given(ids) || f.dryRun):
			return usagef("a run keeps the letters it began with: give --resume or --cancel without ids, filters or --dry-run")
		case f.resume != "":
			return a.resumeRun(c.Context(), f)
		case f.cancel != "":
			return a.cancelRun(c.Context(), f)
		}
		return a.redrive(c.Context(), f, ids)
	}
	return c
}

func (f *redriveFlags) register(c *cobra.Command) {
	f.filter.register(c, 0)
	fs := c.Flags()
	fs.BoolVar(&f.dryRun, "dry-run", false, "print what would be done, and change nothing")
	fs.IntVar(&f.rate, "rate", 200, "letters a second; 0 is no limit")
	fs.IntVar(&f.cap, "cap", 0, "park letters that came back so often (3 by default)")
	fs.IntVar(&f.batch, "batch", 0, "letters in flight at once (500 by default)")
	fs.BoolVar(&f.keepGoing, "keep-going", false, "do not pause when 20 letters in a row came back")
	fs.BoolVar(&f.asNew, "as-new", false, "run letters again under a new key (wants --why)")
	fs.BoolVar(&f.acceptUnknown, "accept-unknown", false, "send letters of which nothing is proven (wants --why)")
	fs.BoolVar(&f.trustKey, "trust-key", false, "resolve letters whose claim has no content to compare (wants --why)")
	fs.StringVar(&f.why, "why", "", "reason, kept in each letter's history")
	fs.StringVar(&f.resume, "resume", "", "go on with this `run`")
	fs.StringVar(&f.cancel, "cancel", "", "end this `run`; what it sent stays sent")
	registerBirth(c, &f.birth, &f.birthSkew)
}

// registerBirth of events, which is proof that a letter is new.
func registerBirth(c *cobra.Command, header *string, birthSkew *time.Duration) {
	fs := c.Flags()
	fs.StringVar(header, "birth-header", "", "`header` in which producers put the time of an event's birth: proof that a letter is new")
	fs.DurationVar(birthSkew, "birth-skew", skew, "by how much producers' clocks may be ahead of the databases'")
}

// config of the redrive.
func (f *redriveFlags) config(a *app, chosen dlq.Filter) (dlq.RedriveConfig, error) {
	c := dlq.RedriveConfig{
		Filter: chosen, Rate: f.rate, Cap: f.cap, Batch: f.batch,
		AsNew: f.asNew, AcceptUnknown: f.acceptUnknown, TrustKey: f.trustKey, KeepGoing: f.keepGoing,
	}
	switch {
	case f.rate < 0 || f.cap < 0 || f.batch < 0:
		return c, usagef("--rate, --cap and --batch must not be negative")
	case f.rate == 0:
		c.Rate = -1
	}
	if f.why != "" || f.asNew || f.acceptUnknown || f.trustKey {
		note, err := a.note(f.why)
		if err != nil {
			return c, err
		}
		c.Note = dlq.Note{Who: note.Who, Why: note.Why}
		return c, nil
	}
	who, err := a.who()
	c.Note = dlq.Note{Who: who, Why: "redrive"}
	return c, err
}
