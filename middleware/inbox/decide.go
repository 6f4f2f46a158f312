package inbox

import (
	"errors"
	"fmt"
	"time"
)

// Action is what is to be done with a delivery after one run.
type Action uint8

const (
	// Requeue: hand the delivery back to the broker. The zero value: what was
	// forgotten is not lost.
	Requeue Action = iota
	// Ack: the effect is committed, or there is none to come.
	Ack
	// Retry: run the whole transaction again after Decision.Wait, with the
	// delivery still unsettled.
	Retry
	// Delay: put the delivery on a delayed retry of Decision.Wait.
	Delay
	// DeadLetter: give the delivery up; it becomes a letter.
	DeadLetter
	// Hold: keep the delivery unsettled and start nothing of this consumer until
	// a run gets through.
	Hold
)

// String gives the word used in logs.
func (a Action) String() string {
	switch a {
	case Ack:
		return "ack"
	case Retry:
		return "retry"
	case Delay:
		return "delay"
	case DeadLetter:
		return "dead-letter"
	case Hold:
		return "hold"
	case Requeue:
		return "requeue"
	}
	return "requeue"
}

// Policy bounds what Decide may choose. The zero value is not useful, see
// DefaultPolicy.
type Policy struct {
	// MaxAttempts of a handler over all deliveries of a message.
	MaxAttempts int
	// InPlace bounds the time that one delivery may spend in retries while it is
	// unsettled: a failing message must not hold up the others for longer.
	InPlace time.Duration
	// Delays are the waits of delayed retry, one a failed attempt, the last one
	// repeated. Empty where there is no delayed retry.
	Delays []time.Duration
	// MaxWaits bounds the delayed waits in a row (a claim held elsewhere, a
	// transaction that the database undoes each time). They grow like Delays, so that
	// the default bound is about a day.
	MaxWaits int
}

// DefaultPolicy is 10 attempts, 5 s in place and 30 delayed waits, without
// delayed retry.
func DefaultPolicy() Policy {
	return Policy{MaxAttempts: 10, InPlace: 5 * time.Second, MaxWaits: 30}
}

// DefaultDelays are the waits of delayed retry, and the retry queues that there
// are for it: 5 s, 30 s, 2 min, 10 min and 1 h.
func DefaultDelays() []time.Duration {
	return []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour}
}

// Run is what Decide knows of a delivery after one run.
type Run struct {
	Outcome Outcome
	Err     error
	// Attempt is the number of this attempt, counted from 1 over all deliveries.
	Attempt int
	// Spent is the time that this delivery has spent in place so far.
	Spent time.Duration
	// Waits are the delayed waits in a row so far, over all deliveries.
	Waits int
	// Backoff is the wait before the next retry in place.
	Backoff time.Duration
	// Final: the handler cannot be run again in place (its goroutine has ended).
	Final bool
}

// Decision says what to do with the delivery.
type Decision struct {
	Action Action
	// Wait before the next run, for Retry and Delay.
	Wait time.Duration
	// Attempt: the run counts as an attempt; otherwise it was a wait.
	Attempt bool
	// Waited: a delayed wait that counts against MaxWaits.
	Waited bool
	// Reason of a letter; nil otherwise.
	Reason error
}

// Decide tells what becomes of a delivery. It is pure: every transport and
// middleware settles by it, so that all treat a message alike.
func Decide(r Run, p Policy) Decision {
	switch r.Outcome {
	case Processed, Duplicate, Unclaimed:
		return Decision{Action: Ack}
	case Conflict:
		return Decision{Action: DeadLetter, Reason: r.Err}
	case Later, Failed:
	}
	switch ClassOf(r.Err) {
	case ClassTransient, ClassUnknown:
		return r.wait(p)
	case ClassDown:
		if wasClaimed(r.Err) {
			return r.lost(p)
		}
		return Decision{Action: Hold}
	case ClassConfig:
		return Decision{Action: Hold}
	case ClassCancelled:
		return Decision{Action: Requeue}
	case ClassPermanent:
		return Decision{Action: DeadLetter, Attempt: true, Reason: r.Err}
	case ClassPlain:
	}
	return r.failed(p)
}

// wait repeats a run that was not the handler's failure.
func (r Run) wait(p Policy) Decision {
	switch {
	case !r.Final && r.Spent+r.Backoff <= p.InPlace:
		return Decision{Action: Retry, Wait: r.Backoff}
	case r.Waits >= p.MaxWaits && len(p.Delays) > 0:
		return Decision{Action: DeadLetter, Reason: fmt.Errorf("gave up after %d waits: %w", r.Waits, reason(r.Err))}
	case len(p.Delays) > 0:
		return Decision{Action: Delay, Wait: p.step(r.Waits + 1), Waited: true}
	}
	return Decision{Action: Requeue}
}

// lost repeats a run whose connection was lost under it. In place that is a
// wait: the next claim tells whether the store is away. But a handler that takes
// longer than the server lets it loses its connection each time, and where the
// message leaves the queue it counts.
func (r Run) lost(p Policy) Decision {
	switch {
	case !r.Final && r.Spent+r.Backoff <= p.InPlace:
		return Decision{Action: Retry, Wait: r.Backoff}
	case len(p.Delays) == 0:
		return Decision{Action: Requeue}
	case r.Attempt >= p.MaxAttempts:
		return r.failed(p)
	}
	return Decision{Action: Delay, Attempt: true, Wait: p.step(r.Attempt)}
}

// step is the delay of the n-th time, counted from 1.
func (p Policy) step(n int) time.Duration {
	return p.Delays[min(max(1, n), len(p.Delays))-1]
}

func wasClaimed(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Claimed
}

// failed repeats an attempt, within the bounds.
func (r Run) failed(p Policy) Decision {
	if r.Attempt >= p.MaxAttempts {
		return Decision{Action: DeadLetter, Attempt: true, Reason: fmt.Errorf("gave up after %d attempts: %w", r.Attempt, reason(r.Err))}
	}
	wait, wanted := retryDelay(r.Err)
	switch {
	case !wanted && len(p.Delays) > 0:
		// In place it would hold up others; the step grows with the attempts.
		return Decision{Action: Delay, Attempt: true, Wait: p.step(r.Attempt)}
	case !wanted:
		wait = r.Backoff
	}
	switch {
	case !r.Final && r.Spent+wait <= p.InPlace:
		return Decision{Action: Retry, Attempt: true, Wait: wait}
	case len(p.Delays) > 0:
		return Decision{Action: Delay, Attempt: true, Wait: wait}
	case wanted:
		return Decision{Action: DeadLetter, Attempt: true, Reason: fmt.Errorf("wanted a retry after %s, and there is no delayed retry: %w", wait, reason(r.Err))}
	}
	return Decision{Action: DeadLetter, Attempt: true, Reason: fmt.Errorf("gave up after %d attempts in %s, and there is no delayed retry: %w", r.Attempt, r.Spent.Round(time.Millisecond), reason(r.Err))}
}

func reason(err error) error {
	if err == nil {
		return errors.New("failed without an error")
	}
	return err
}
