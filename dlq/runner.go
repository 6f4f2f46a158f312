package dlq

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/sekali-mq/sekali/internal/backoff"
	"github.com/sekali-mq/sekali/middleware"
)

// runner is one process at work on one run.
type runner struct {
	l      *Letters
	pub    middleware.Confirmed
	config RedriveConfig
	owner  string
	run    *runRow
	// orphans: letters that this run left in sending are looked at first.
	orphans bool
	after   int64 // of the pass that is going on

	began   time.Time // for the rate
	sent    int64     // since then
	silent  int       // batches in a row without any answer
	checked time.Time // when the letters that came back were looked at
}

func newRunner(l *Letters, pub middleware.Confirmed, c RedriveConfig) *runner {
	return &runner{l: l, pub: pub, config: c, owner: rand.Text()}
}

// maxBytes of bodies that are in memory at once.
const maxBytes = 16 << 20

// drive works until the run is done, or cannot go on.
func (r *runner) drive(ctx context.Context) (Run, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	renewing := make(chan struct{})
	rctx, stop := context.WithCancel(ctx)
	go func() {
		defer close(renewing)
		r.renew(rctx, cancel)
	}()
	ended := false
	defer func() {
		stop()
		<-renewing
		if !ended { // the publisher panicked
			_ = r.end(ctx, errors.New("the process that worked on it gave up"))
		}
	}()
	err := r.work(ctx)
	ended = true
	stop()
	<-renewing
	err = r.end(ctx, err)
	if err != nil {
		err = fmt.Errorf("redrive, run %s: %w", r.run.ID, err)
	}
	return r.run.Run, err
}

func (r *runner) work(ctx context.Context) error {
	r.began = time.Now()
	for _, orphans := range []bool{true, false} {
		r.orphans, r.after = orphans, 0
		if !orphans {
			r.after = r.run.last
		}
		for {
			more, err := r.batch(ctx)
			if err != nil {
				return err
			}
			if r.config.Progress != nil {
				r.config.Progress(r.run.Run)
			}
			if !more {
				break
			}
			if err := r.pace(ctx); err != nil {
				return err
			}
			if err := r.comeBack(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// size of the next batch: with a rate, as many as a quarter of a second takes.
func (r *runner) size() int {
	n := r.config.Batch
	if r.config.Rate > 0 {
		n = min(n, max(1, r.config.Rate/4)) //nolint:mnd // see above
	}
	if limit := r.config.Filter.Limit; limit > 0 && !r.orphans {
		n = min(n, limit-int(r.run.Counts.Looked))
	}
	return n
}

// pace waits until the rate allows more.
func (r *runner) pace(ctx context.Context) error {
	if r.config.Rate <= 0 {
		return context.Cause(ctx)
	}
	due := r.began.Add(time.Duration(r.sent) * time.Second / time.Duration(r.config.Rate))
	if wait := time.Until(due); wait > 0 {
		return backoff.Sleep(ctx, wait)
	}
	return context.Cause(ctx)
}

// endTimeout bounds what is written when a run ends, which must not hang on its
// context.
const endTimeout = 10 * time.Second

// end keeps what became of the run and gives its queues back.
func (r *runner) end(ctx context.Context, cause error) error {
	if lost := context.Cause(ctx); errors.Is(lost, errLostLease) {
		cause = lost
	}
	state, reason := Done, ""
	if cause != nil {
		state, reason = Paused, cause.Error()
	}
	if errors.Is(cause, errLostLease) {
		now, err := r.l.Run(context.WithoutCancel(ctx), r.run.ID)
		if err != nil {
			return errors.Join(cause, err)
		}
		r.run.Run = now
		if now.State == Cancelled {
			return ErrCancelled
		}
		return cause
	}
	ectx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	err := r.l.write(ectx, func(q querier) error {
		if err := r.fence(ectx, q); err != nil {
			return err
		}
		if err := r.save(ectx, q, state, reason); err != nil {
			return err
		}
		return r.release(ectx, q)
	})
	switch {
	case errors.Is(err, errLostLease):
		if now, rerr := r.l.Run(ectx, r.run.ID); rerr == nil {
			r.run.Run = now
			if now.State == Cancelled {
				return ErrCancelled
			}
		}
		return errors.Join(cause, err)
	case err != nil:
		return errors.Join(cause, fmt.Errorf("keep what became of it: %w", err))
	}
	r.run.State, r.run.Reason = state, reason
	return cause
}
