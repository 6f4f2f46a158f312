package inbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// Bounds of a purge.
const (
	purgeBatch = 1000
	purgePause = 50 * time.Millisecond
	// purgeLease is how long a purger that does not come back keeps others out.
	purgeLease = time.Minute
	// purgeTries of one batch whose row is locked, or that the database undid.
	purgeTries = 40
)

// PurgeOptions of one run.
type PurgeOptions struct {
	// Keep is the retention: claims that are younger stay. It must be longer than
	// any copy of a message can take to come, see docs/retention.md. Required.
	Keep time.Duration
	// Until bounds the cut-off further: claims from then on stay, whatever Keep
	// says. Defaults to zero: Keep alone.
	Until time.Time
	// Batch is how many claims are looked at in one step, old or not, and so the
	// most that one transaction deletes. Defaults to 1000.
	Batch int
	// Pause between two steps. Negative: none. Defaults to 50 ms.
	Pause time.Duration
	// Hold is asked, outside of any transaction, which of a step's old claims must
	// stay; keys are in their stored form, claims marked split among them. Defaults
	// to nil: old claims go, and those marked split stay.
	Hold func(ctx context.Context, cs []Claim) (stay []bool, err error)
	// Progress is told after each step. Defaults to nil: nobody.
	Progress func(Purged)
	// Note puts an act into the audit, where an operator purges. Defaults to none: a
	// purge by the clock leaves no act.
	Note Note
}

// Purged is what a run has done so far.
type Purged struct {
	// Looked at, old or not.
	Looked int64
	// Deleted claims.
	Deleted int64
	// Kept: old claims that Hold held back.
	Kept int64
	// Splits: old claims that stay because they are marked split.
	Splits int64
	// Cutoff before which claims were deleted, by the database's clock.
	Cutoff time.Time
	// Horizon of the consumer. It is moved to the cut-off with the first claim that
	// is deleted, and stays where it is when there is none.
	Horizon time.Time
	// Busy: another purger was at work on this consumer, so this one left it to it.
	// A purger that died counts as at work for a minute.
	Busy bool
}

// PurgeWindow asks for the claims after a key.
type PurgeWindow struct {
	// Consumer whose claims.
	Consumer string
	// After is the last key that was seen; First: there was none.
	After string
	First bool
	// Limit of claims, old or not.
	Limit int
	// Cutoff tells which are old.
	Cutoff time.Time
}

// PurgeCandidate is a claim that was looked at.
type PurgeCandidate struct {
	// Claim with its fingerprint.
	Claim Claim
	// Old: it is older than the cut-off. An adopted table may not tell a claim's
	// time to the hour; what may be younger is not old.
	Old bool
}

// PurgeStep is one transaction of a purge.
type PurgeStep struct {
	// Consumer whose claims are purged.
	Consumer string
	// Purger is the run's name for itself. While Lease runs no other purger may do a
	// step of this consumer.
	Purger string
	Lease  time.Duration
	// Cutoff: only claims that are older still may be deleted.
	Cutoff time.Time
	// Keys of claims to delete unless they are marked split by now, and Splits of
	// claims to delete that are marked split. With neither the step only takes the
	// lease, and the horizon must stay.
	Keys, Splits []string
	// Last gives the lease back.
	Last bool
	// Acts to write with this step.
	Acts []Act
}

// PurgeResult is what became of a step.
type PurgeResult struct {
	// Deleted claims.
	Deleted int64
	// Horizon as it is after the step.
	Horizon time.Time
	// Busy: another purger has the lease. Nothing was done.
	Busy bool
	// Locked: somebody else holds the row's lock for a moment. Nothing was done.
	Locked bool
}

// Purge deletes the claims of one consumer that are older than o.Keep by the
// database's clock. It takes small steps with short transactions and pauses
// between them; handlers go on beside it. What it did until an error, or until ctx
// ended, stays done, and it may be called again at any time. Two at once do no
// harm: one of them is Busy.
//
// A copy of a message whose claim was deleted runs again. That is what horizon
// says: an absent claim from before it proves nothing.
func (b *Inbox) Purge(ctx context.Context, consumer string, o PurgeOptions) (p Purged, err error) {
	err = b.keep(fmt.Sprintf("purge claims of %q", consumer), func() error {
		if err := o.defaults(); err != nil {
			return err
		}
		now, err := b.store.Clock(ctx)
		if err != nil {
			return err
		}
		cutoff := now.Add(-o.Keep)
		if !o.Until.IsZero() && o.Until.Before(cutoff) {
			cutoff = o.Until
		}
		r := &purge{b: b, o: o, step: PurgeStep{Consumer: consumer, Purger: rand.Text(), Lease: purgeLease + o.Pause, Cutoff: cutoff.Truncate(clockUnit)}}
		r.done.Cutoff = r.step.Cutoff
		if o.Note != (Note{}) {
			r.step.Acts = []Act{o.Note.act("purge", consumer, fmt.Sprintf("older than %s: cut-off %s", o.Keep, r.step.Cutoff.UTC().Format(time.RFC3339)))}
		}
		err = r.run(ctx)
		p = r.done
		return err
	})
	return p, err
}

func (o *PurgeOptions) defaults() error {
	var errs []error
	if o.Keep <= 0 {
		errs = append(errs, fmt.Errorf("Keep is %s: say for how long claims are kept; the usual is 30 days", o.Keep))
	}
	if o.Batch < 0 {
		errs = append(errs, fmt.Errorf("Batch is %d: must not be negative", o.Batch))
	}
	if o.Batch == 0 {
		o.Batch = purgeBatch
	}
	if o.Pause == 0 {
		o.Pause = purgePause
	}
	o.Pause = max(o.Pause, 0)
	if o.Note != (Note{}) {
		errs = append(errs, o.Note.check())
	}
	if err := errors.Join(errs...); err != nil {
		return refusal{err}
	}
	return nil
}

// purge is one run.
type purge struct {
	b     *Inbox
	o     PurgeOptions
	step  PurgeStep
	done  Purged
	renew time.Time // when the lease was taken, by this process's clock
}

func (p *purge) run(ctx context.Context) (err error) {
	if err := p.delete(ctx, nil, nil); err != nil || p.done.Busy {
		return err
	}
	p.step.Acts = nil
	defer func() {
		if p.done.Busy {
			return
		}
		lctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		p.step.Last = true
		if lerr := p.delete(lctx, nil, nil); lerr != nil {
			p.b.config.Logger.WarnContext(ctx, "purge could not say that it ended: the next one finds it busy for a minute", "consumer", p.step.Consumer, "err", lerr)
		}
	}()
	w := PurgeWindow{Consumer: p.step.Consumer, First: true, Limit: p.o.Batch, Cutoff: p.step.Cutoff}
	for {
		found, err := p.b.store.PurgeWindow(ctx, w)
		if err != nil {
			return err
		}
		keys, splits, err := p.choose(ctx, found)
		if err != nil {
			return err
		}
		if len(keys)+len(splits) > 0 || time.Since(p.renew) > p.step.Lease/3 {
			if err := p.delete(ctx, keys, splits); err != nil || p.done.Busy {
				return err
			}
		}
		p.done.Looked += int64(len(found))
		if p.o.Progress != nil {
			p.o.Progress(p.done)
		}
		if len(found) < w.Limit {
			return nil
		}
		w.After, w.First = found[len(found)-1].Claim.Key, false
		if err := pause(ctx, p.o.Pause); err != nil {
			return err
		}
	}
}

// choose those of a window that go.
func (p *purge) choose(ctx context.Context, found []PurgeCandidate) (keys, splits []string, err error) {
	var old []Claim
	for _, f := range found {
		split := Record{Found: true, Fingerprint: f.Claim.Fingerprint}.Split()
		switch {
		case !f.Old:
		case split && p.o.Hold == nil:
			p.done.Splits++
		default:
			old = append(old, f.Claim)
		}
	}
	if len(old) == 0 {
		return nil, nil, nil
	}
	stay := make([]bool, len(old))
	if p.o.Hold != nil {
		if stay, err = p.o.Hold(ctx, old); err != nil {
			return nil, nil, fmt.Errorf("ask which claims must stay: %w", err)
		}
		if len(stay) != len(old) {
			return nil, nil, refuse("Hold answered for %d claims of %d", len(stay), len(old))
		}
	}
	for i, c := range old {
		split := Record{Found: true, Fingerprint: c.Fingerprint}.Split()
		switch {
		case stay[i] && split:
			p.done.Splits++
		case stay[i]:
			p.done.Kept++
		case split:
			splits = append(splits, c.Key)
		default:
			keys = append(keys, c.Key)
		}
	}
	return keys, splits, nil
}

// delete does one step. It is tried again while somebody else has the row, or when
// the database undid it: the horizon is the only thing that it shares with others.
func (p *purge) delete(ctx context.Context, keys, splits []string) error {
	s := p.step
	s.Keys, s.Splits = keys, splits
	for try := 1; ; try++ {
		res, err := p.b.store.PurgeStep(ctx, s)
		again := err == nil && res.Locked || err != nil && p.b.Class(err) == ClassTransient
		switch {
		case again && try < purgeTries:
			if err := pause(ctx, max(p.o.Pause, purgePause)); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		case res.Busy || res.Locked:
			p.done.Busy = true
			return nil
		}
		p.done.Deleted += res.Deleted
		p.done.Horizon = res.Horizon
		p.renew = time.Now()
		return nil
	}
}

// pause waits for d, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
