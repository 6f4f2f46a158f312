package dlq_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/dlq"
)

func TestAStoppedRunIsResumedWhereItWas(t *testing.T) {
	each(t, func(r *rig) {
		r.fill(12)
		ctx, cancel := context.WithCancel(r.Context())
		n := 0
		r.pub.answer = func(string, *message.Message) error {
			if n++; n > 6 {
				cancel()
				return errLost
			}
			return nil
		}
		c := all()
		c.Batch = 4
		run, err := r.letters.Redrive(ctx, r.pub, c)
		if !errors.Is(err, context.Canceled) || run.State != dlq.Paused || run.Counts.Sent != 6 {
			r.Fatalf("%+v, %v", run, err)
		}
		if got := r.states(); got[dlq.Sending] != 2 || got[dlq.Sent] != 6 || got[dlq.Waiting] != 4 {
			r.Errorf("%v", got)
		}
		r.pub.answer = nil
		run, err = r.letters.Resume(r.Context(), r.pub, run.ID, dlq.ResumeConfig{})
		r.must(err)
		if run.Counts.Sent != 12 || run.State != dlq.Done || r.states()[dlq.Sent] != 12 {
			r.Errorf("%+v, %v", run, r.states())
		}
	})
}

func TestAPublisherThatPanicsLeavesAllToTheNextRun(t *testing.T) {
	each(t, func(r *rig) {
		r.fill(3)
		r.pub.answer = func(string, *message.Message) error { panic("out of paper") }
		func() {
			defer func() {
				if recover() == nil {
					r.Error("the panic was swallowed")
				}
			}()
			_, _ = r.letters.Redrive(r.Context(), r.pub, all())
		}()
		if got := r.states(); got[dlq.Sending] != 3 {
			r.Errorf("%v", got)
		}
		r.pub.answer = nil
		if run := r.redrive(all()); run.Counts.Sent != 3 {
			r.Errorf("%+v", run.Counts)
		}
	})
}

func TestOneRunAtATimeHasAQueue(t *testing.T) {
	each(t, func(r *rig) {
		r.fill(2)
		entered, leave := make(chan struct{}), make(chan struct{})
		r.pub.answer = func(string, *message.Message) error {
			select {
			case entered <- struct{}{}:
			default:
			}
			<-leave
			return nil
		}
		done := make(chan error, 1)
		go func() {
			_, err := r.letters.Redrive(context.Background(), r.pub, all())
			done <- err
		}()
		<-entered
		if _, err := r.letters.Redrive(r.Context(), r.pub, all()); !errors.Is(err, dlq.ErrBusy) {
			r.Errorf("a second run: %v", err)
		}
		runs, err := r.letters.Runs(r.Context(), 0)
		r.must(err)
		if _, err := r.letters.Resume(r.Context(), r.pub, runs[0].ID, dlq.ResumeConfig{}); !errors.Is(err, dlq.ErrBusy) {
			r.Errorf("resumed while it runs: %v", err)
		}
		if _, err := r.letters.Park(r.Context(), dlq.Filter{All: true}, note); err == nil {
			r.Error("letters that are being sent were parked")
		}
		close(leave)
		r.must(<-done)
	})
}

func TestACancelledRunStops(t *testing.T) {
	each(t, func(r *rig) {
		r.fill(9)
		n := 0
		r.pub.after = func(string, *message.Message) {
			if n++; n == 3 {
				runs, err := r.letters.Runs(r.Context(), 0)
				r.must(err)
				run, err := r.letters.Cancel(r.Context(), runs[0].ID, note)
				if r.must(err); run.State != dlq.Cancelled {
					r.Errorf("%+v", run)
				}
			}
		}
		c := all()
		c.Batch = 3
		run, err := r.letters.Redrive(r.Context(), r.pub, c)
		if !errors.Is(err, dlq.ErrCancelled) || run.State != dlq.Cancelled {
			r.Fatalf("%+v, %v", run, err)
		}
		if got := r.states(); got[dlq.Sent] != 3 || got[dlq.Waiting] != 6 {
			r.Errorf("%v", got)
		}
		if _, err := r.letters.Resume(r.Context(), r.pub, run.ID, dlq.ResumeConfig{}); !errors.Is(err, dlq.ErrCancelled) {
			r.Errorf("resumed: %v", err)
		}
		r.pub.after = nil
		r.redrive(all())
	})
}
