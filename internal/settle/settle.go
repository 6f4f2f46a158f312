// Package settle decides what becomes of a delivery. It repeats runs in place,
// holds a consumer while its store is away or its set-up is wrong, and stops one
// whose messages all die; what is left to the caller is one of four: ack,
// delay, dead-letter, requeue. The Watermill stack and the plain AMQP handler
// both settle by it, so that they treat a message alike.
package settle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/sekali-mq/sekali/internal/backoff"
	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

const (
	// The waits between runs in place.
	retryFirst = 100 * time.Millisecond
	retryLimit = 2 * time.Second

	// breakerDeaths: when that many messages of a consumer died one after the
	// other, the fault is not the messages'.
	breakerDeaths = 20

	// holdFor bounds how long a delivery is kept: half of RabbitMQ's default
	// consumer timeout of 30 min, at which the broker would close the channel.
	holdFor = 15 * time.Minute
)

// Settler holds the state that the deliveries of one process share. Safe for
// concurrent use.
type Settler struct {
	policy inbox.Policy
	log    *slog.Logger

	mu    sync.Mutex
	gates map[string]*gate
}

// New returns a Settler. A nil logger is silent.
func New(p inbox.Policy, log *slog.Logger) *Settler {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Settler{policy: p, log: log, gates: make(map[string]*gate)}
}

// Verdict is what is left for the caller to do.
type Verdict struct {
	// Action is Ack, Delay, DeadLetter or Requeue.
	Action inbox.Action
	// Wait of a Delay.
	Wait time.Duration
	// Reason of a letter; the last error otherwise.
	Reason error
	// Attempts made so far, over all deliveries.
	Attempts int
	// Waits that were delayed, in a row so far.
	Waits int
	// FirstFailure of the message; zero when no run failed.
	FirstFailure time.Time

	failed bool // the last run was an attempt, not a wait
}

// Delivery is one delivery on its way.
type Delivery struct {
	// Consumer whose deliveries are held together.
	Consumer string
	// Before is what earlier deliveries came to, see letter.Before.
	Before letter.Facts
	// Key of the claim, as far as it is known, for the log. Nil for none.
	Key func() string
	// Run runs the whole transaction once. A panic becomes a *PanicError; if it
	// leaves its goroutine the caller goes on with Left.
	Run func(ctx context.Context, attempt int) (inbox.Outcome, error)
}

// Settle runs the delivery until it is decided. ctx is not handed to the
// handler: it ends when the consumer shuts down, and then no new run is begun
// and the verdict is Requeue.
func (s *Settler) Settle(ctx context.Context, d Delivery) Verdict {
	grow()
	r := &round{settler: s, delivery: d, gate: s.gate(d.Consumer), verdict: Verdict{
		Attempts: d.Before.Attempts, Waits: d.Before.Waits, FirstFailure: d.Before.FirstFailure,
	}}
	return r.settle(ctx)
}

// Left decides on a delivery whose handler left its goroutine (Goexit): a
// failed attempt that cannot be repeated in place.
func (s *Settler) Left(d Delivery, attempt int) Verdict {
	dec := inbox.Decide(inbox.Run{Outcome: inbox.Failed, Err: errLeft, Attempt: attempt, Final: true}, s.policy)
	v := Verdict{Action: dec.Action, Wait: dec.Wait, Reason: errLeft, Attempts: attempt, FirstFailure: d.Before.FirstFailure, failed: true}
	if v.FirstFailure.IsZero() {
		v.FirstFailure = time.Now()
	}
	if dec.Action == inbox.DeadLetter {
		v.Reason = dec.Reason
		if !d.Before.Redriven {
			s.died(s.gate(d.Consumer), d.Consumer)
		}
	}
	return v
}

var errLeft = errors.New("handler left its goroutine (runtime.Goexit): it must return")

func (s *Settler) gate(consumer string) *gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gates[consumer]
	if g == nil {
		g = newGate()
		s.gates[consumer] = g
	}
	return g
}

func (s *Settler) died(g *gate, consumer string) {
	if g.died() >= breakerDeaths && g.hold() {
		s.log.Error("consumer is held: all of its last messages died; look at its letters, it goes on when one gets through",
			"consumer", consumer, "letters", breakerDeaths)
	}
}

// round is the state of one Settle.
type round struct {
	settler  *Settler
	delivery Delivery
	gate     *gate
	leader   bool
	verdict  Verdict
	probes   *backoff.Backoff // of a message that is held by itself
	lives    int              // of the consumer, when that began
}

func (r *round) settle(ctx context.Context) Verdict {
	// A Goexit of the handler unwinds through here: give the lead on.
	defer func() {
		if r.leader {
			r.gate.stepDown()
		}
	}()
	patience := patience{since: time.Now()}
	defer patience.stop()
	var waits *backoff.Backoff
	start := patience.since
	for {
		if held, err := r.enter(ctx, &patience); err != nil {
			return r.giveUpHolding(err)
		} else if held {
			start = time.Now() // what was held does not count as spent
		}
		attempt := r.verdict.Attempts + 1
		out, err := r.run(ctx, attempt)
		if err != nil && waits == nil {
			waits = backoff.New(retryFirst, retryLimit)
		}
		dec := r.decide(inbox.Run{
			Outcome: out, Err: err, Attempt: attempt,
			Spent: time.Since(start), Backoff: next(waits), Waits: r.verdict.Waits,
		})
		r.note(dec, out, err)
		switch dec.Action {
		case inbox.Retry:
			r.tellRetry(dec.Wait)
			if err := backoff.Sleep(ctx, dec.Wait); err != nil {
				r.verdict.Action = inbox.Requeue
				return r.verdict
			}
		case inbox.Hold:
			if err := r.hold(ctx, &patience, err); err != nil {
				return r.giveUpHolding(err)
			}
		case inbox.Ack, inbox.Delay, inbox.DeadLetter, inbox.Requeue:
			r.verdict.Action, r.verdict.Wait = dec.Action, dec.Wait
			return r.verdict
		}
	}
}

// next is the next wait; what succeeded has none.
func next(waits *backoff.Backoff) time.Duration {
	if waits == nil {
		return 0
	}
	return waits.Next()
}

// patience ends when a delivery was kept for holdFor. Most never need the timer.
type patience struct {
	since time.Time
	timer *time.Timer
}

func (p *patience) over() <-chan time.Time {
	if p.timer == nil {
		p.timer = time.NewTimer(holdFor - time.Since(p.since))
	}
	return p.timer.C
}

func (p *patience) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

// decide is inbox.Decide, with one thing that only the consumer as a whole can
// tell: whether a wrong set-up is everybody's. A message that got its claim and
// then failed for its set-up, while others get through, has that fault alone.
func (r *round) decide(run inbox.Run) inbox.Decision {
	dec := inbox.Decide(run, r.settler.policy)
	if dec.Action != inbox.Hold || !own(run.Err) {
		r.probes = nil
		return dec
	}
	if lives := r.gate.lived(); r.probes == nil {
		r.probes, r.lives = backoff.New(probeFirst, probeLimit), lives
	} else if lives > r.lives {
		run.Err = plain{run.Err}
		return inbox.Decide(run, r.settler.policy)
	}
	return dec
}

// own tells an error that came after the claim.
func own(err error) bool {
	e, ok := errors.AsType[*inbox.Error](err)
	return ok && e.Claimed
}

// plain hides the class of an error, and keeps what it is.
type plain struct{ err error }

func (p plain) Error() string { return p.err.Error() }

// giveUpHolding gives the delivery back. Where there is delayed retry it goes
// there: a return would count against the broker's delivery limit, and an outage
// must make no letters.
func (r *round) giveUpHolding(err error) Verdict {
	r.verdict.Action, r.verdict.Reason, r.verdict.failed = inbox.Requeue, err, false
	if delays := r.settler.policy.Delays; errors.Is(err, errHeldTooLong) && len(delays) > 0 {
		r.verdict.Action, r.verdict.Wait = inbox.Delay, delays[0]
	}
	return r.verdict
}

// PanicError is the error of a handler that panicked. Its text leaves the stack
// out: it travels in headers.
type PanicError struct {
	Value any
	Stack []byte
}

// Error gives the value.
func (p *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v", p.Value) }

// run turns a panic into an error, outside of the claim, which is rolled back
// by then. A leader that gets its claim lets the others through at once: its
// handler may take long.
func (r *round) run(ctx context.Context, attempt int) (out inbox.Outcome, err error) {
	defer func() {
		if v := recover(); v != nil { // nil for a Goexit, which goes on
			p := &PanicError{Value: v, Stack: debug.Stack()}
			r.settler.log.Error("handler panicked", "consumer", r.delivery.Consumer, "key", r.delivery.key(), "attempt", attempt, "panic", fmt.Sprint(v), "stack", string(p.Stack))
			out, err = inbox.Failed, p
		}
	}()
	ctx = inbox.WithAttempt(ctx, attempt)
	if r.leader {
		ctx = inbox.WithClaimed(ctx, r.lead)
	}
	return r.delivery.Run(ctx, attempt)
}

// lead opens the gate, unless the breaker keeps it: that one wants a message to
// get through as a whole.
func (r *round) lead() {
	if !r.leader || r.gate.broken() {
		return
	}
	r.leader = false
	held := r.gate.open()
	r.gate.stepDown()
	r.settler.log.Info("consumer goes on", "consumer", r.delivery.Consumer, "held", held.Round(time.Millisecond))
}

// enter passes the gate, unless this delivery leads already.
func (r *round) enter(ctx context.Context, p *patience) (held bool, err error) {
	if err := context.Cause(ctx); err != nil {
		return false, err
	}
	if r.leader {
		select {
		case <-p.over():
			return true, errHeldTooLong
		default:
			return true, r.gate.step(ctx)
		}
	}
	r.leader, err = r.gate.enter(ctx, p)
	return r.leader, err
}

// note keeps the books of the delivery and of the gate after a run.
func (r *round) note(dec inbox.Decision, out inbox.Outcome, err error) {
	v := &r.verdict
	v.Reason, v.failed = err, dec.Attempt
	if dec.Attempt {
		v.Attempts++
		v.Waits = 0
	}
	if dec.Waited {
		v.Waits++
	}
	if err != nil && v.FirstFailure.IsZero() {
		v.FirstFailure = time.Now()
	}
	switch dec.Action {
	case inbox.Hold:
		return
	case inbox.DeadLetter:
		v.Reason = dec.Reason
		// A message without a key and a conflict are the producer's fault and tell
		// nothing of this consumer. What an operator puts back is known to be ill, and
		// a redrive has a stop of its own.
		if dec.Attempt && !errors.Is(err, inbox.ErrNoKey) && !r.delivery.Before.Redriven {
			r.settler.died(r.gate, r.delivery.Consumer)
		}
	case inbox.Ack:
		if out == inbox.Processed {
			r.gate.alive()
		}
	case inbox.Retry, inbox.Delay, inbox.Requeue:
	}
	// Whatever a leader's run came to, it got through to a decision of its own; a
	// cancelled one proves nothing.
	if r.leader && inbox.ClassOf(err) != inbox.ClassCancelled {
		r.lead()
	}
}

// hold keeps the delivery. An error from before the claim closes the gate to
// all; one from after it concerns this message first: it waits by itself, and
// whether others get through decides what it is.
func (r *round) hold(ctx context.Context, p *patience, err error) error {
	text := "consumer is held: the database does not take its work; it goes on by itself"
	if inbox.ClassOf(err) == inbox.ClassConfig {
		text = "consumer is held: its set-up is wrong; nothing is lost, it goes on when this is mended"
	}
	if errors.Is(err, inbox.ErrHeld) {
		text = "consumer is held by an operator: its messages wait until it is resumed"
	}
	if !own(err) {
		if r.gate.hold() {
			r.settler.log.Error(text, "consumer", r.delivery.Consumer, "err", err)
		}
		return nil
	}
	if r.leader {
		r.lead()
	}
	r.settler.log.Error("message is held: its set-up is wrong, or the consumer's; nothing is lost", "consumer", r.delivery.Consumer, "err", err)
	select {
	case <-p.over():
		return errHeldTooLong
	default:
		return backoff.Sleep(ctx, r.probes.Next())
	}
}
