package dlq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/internal/backoff"
	"github.com/sekali-mq/sekali/internal/letter"
)

const (
	// A letter whose publish gets no answer while others get theirs is tried this
	// often within a run.
	sendTries = 3
	// silentBatches in a row pause a run.
	silentBatches = 3
	// The waits while the broker is away.
	awayFirst = 200 * time.Millisecond
	awayLimit = 15 * time.Second
)

var errClosed = errors.New("the publisher was closed")

// sendAll publishes letters that are marked, and marks what came of it. While nothing
// at all gets through it waits for the broker. Where it cannot go on, letters stay
// in sending: whoever resumes the run sends them again.
func (r *runner) sendAll(ctx context.Context, items []*item) error {
	if len(items) == 0 {
		return nil
	}
	err := r.bodies(ctx, items)
	if err != nil {
		return err
	}
	waits := backoff.New(awayFirst, awayLimit)
	answered := false
	for try := 1; ; try++ {
		o := r.publish(ctx, items)
		if err := r.confirmed(ctx, o.sent); err != nil {
			return err
		}
		if err := r.failedOnes(ctx, o.refused, o.errs); err != nil {
			return err
		}
		answered = answered || len(o.sent)+len(o.refused) > 0
		switch {
		case len(o.again()) == 0:
			r.silent = 0
			return nil
		case o.closed:
			return errors.Join(r.noteUnknown(ctx, o.unknown, o.errs), errClosed)
		case ctx.Err() != nil:
			return errors.Join(r.noteUnknown(ctx, o.unknown, o.errs), context.Cause(ctx))
		case len(o.unsent) > 0:
			try = 0 // nothing wrong with the letters: the broker cannot be reached
			r.l.config.Logger.Warn("broker takes no letters: the redrive waits for it", "run", r.run.ID, "letters", len(o.unsent), "err", o.errs[o.unsent[0]])
		case try >= sendTries:
			return r.giveUp(ctx, o, answered)
		}
		if err := r.once(ctx, o); err != nil {
			return err
		}
		if err := backoff.Sleep(ctx, waits.Next()); err != nil {
			return errors.Join(r.noteUnknown(ctx, o.unknown, o.errs), err)
		}
		if items, err = r.still(ctx, o.again()); err != nil || len(items) == 0 {
			return err
		}
	}
}

// outcome of one publish.
type outcome struct {
	sent, refused, unsent, unknown []*item
	errs                           map[*item]error
	closed                         bool
}

// again are those that are to be published once more.
func (o *outcome) again() []*item {
	return append(append([]*item(nil), o.unsent...), o.unknown...)
}

// publish gives each queue its letters, many in flight.
func (r *runner) publish(ctx context.Context, items []*item) *outcome {
	o := &outcome{errs: make(map[*item]error)}
	queues, by := sameQueue(items)
	for _, queue := range queues {
		msgs := make([]*message.Message, len(by[queue]))
		for i, it := range by[queue] {
			msgs[i] = outgoing(context.WithoutCancel(ctx), it.row, it.decision)
		}
		pctx, cancel := context.WithTimeout(ctx, r.config.PublishTimeout)
		errs := r.pub.PublishEach(pctx, queue, msgs...)
		cancel()
		for i, it := range by[queue] {
			err := errors.New("the publisher gave no result")
			if i < len(errs) {
				err = errs[i]
			}
			if err == nil {
				o.sent = append(o.sent, it)
				continue
			}
			o.errs[it] = err
			switch letter.FateOf(err) {
			case letter.FateRefused:
				o.refused = append(o.refused, it)
			case letter.FateClosed:
				o.closed = true
				o.unsent = append(o.unsent, it)
			case letter.FateUnsent:
				o.unsent = append(o.unsent, it)
			case letter.FateUnknown:
				o.unknown = append(o.unknown, it)
			}
		}
	}
	return o
}

// giveUp leaves what got no answer in sending. Where no batch gets any, for
// several in a row, it is not the letters: the run pauses.
func (r *runner) giveUp(ctx context.Context, o *outcome, answered bool) error {
	if err := r.noteUnknown(ctx, o.unknown, o.errs); err != nil {
		return err
	}
	r.run.Counts.Unconfirmed += int64(len(o.unknown))
	if answered {
		r.silent = 0
		return nil
	}
	if r.silent++; r.silent < silentBatches {
		return nil
	}
	return fmt.Errorf("the publisher confirms nothing: %w", o.errs[o.unknown[0]])
}

// once takes out letters of which a second copy would not be recognised: they are
// not published again without an answer to the first.
func (r *runner) once(ctx context.Context, o *outcome) error {
	var again, held []*item
	for _, it := range o.unknown {
		if it.once {
			held = append(held, it)
		} else {
			again = append(again, it)
		}
	}
	o.unknown = again
	r.run.Counts.Unconfirmed += int64(len(held))
	return r.noteUnknown(ctx, held, o.errs)
}

// noteUnknown writes the error of letters that stay in sending.
func (r *runner) noteUnknown(ctx context.Context, items []*item, errs map[*item]error) error {
	if len(items) == 0 {
		return nil
	}
	nctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.PublishTimeout)
	defer cancel()
	events := make([]Event, len(items))
	for i, it := range items {
		events[i] = Event{Letter: it.row.ID, What: "unconfirmed", State: Sending, Run: r.run.ID, N: int(it.n), Text: short(errs[it])}
	}
	return r.l.write(nctx, func(q querier) error { return r.l.log(nctx, q, events...) })
}

// still keeps the letters that are still this run's: an unconfirmed one may have
// arrived, and died again.
func (r *runner) still(ctx context.Context, items []*item) (kept []*item, err error) {
	if len(items) == 0 {
		return nil, nil
	}
	err = r.l.write(ctx, func(q querier) error {
		kept = nil
		now, err := r.lock(ctx, q, items)
		for _, it := range items {
			if is := now[it.row.ID]; is != nil && is.State == Sending && is.sendN == it.n && is.Run == r.run.ID {
				kept = append(kept, it)
			}
		}
		return err
	})
	return kept, err
}
