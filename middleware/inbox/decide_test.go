package inbox

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// One table for what becomes of a delivery: every transport settles by it.
func TestDecide(t *testing.T) {
	cause := errors.New("cause")
	in := func(c Class) error { return fmt.Errorf("outer: %w", &Error{Op: "handle", Class: c, Err: cause}) }
	lost := &Error{Op: "handle", Class: ClassDown, Claimed: true, Err: cause}
	local := DefaultPolicy()
	delayed := local
	delayed.Delays = []time.Duration{5 * time.Second, 30 * time.Second}
	ms := time.Millisecond
	for _, c := range []struct {
		name string
		run  Run
		p    Policy
		want Action
		wait time.Duration
		try  bool // counts as an attempt
	}{
		{"failed without an error", Run{}, Policy{}, DeadLetter, 0, true},
		{"processed", Run{Outcome: Processed}, local, Ack, 0, false},
		{"duplicate", Run{Outcome: Duplicate}, local, Ack, 0, false},
		{"skipped", Run{Outcome: Unclaimed}, local, Ack, 0, false},
		{"conflict is never acked in silence", Run{Outcome: Conflict, Err: cause}, local, DeadLetter, 0, false},
		{"undone by the database", Run{Err: in(ClassTransient), Backoff: 100 * ms}, local, Retry, 100 * ms, false},
		{"undone, in place used up", Run{Err: in(ClassTransient), Backoff: 100 * ms, Spent: 5 * time.Second}, local, Requeue, 0, false},
		{"undone, in place used up, delayed", Run{Err: in(ClassTransient), Backoff: 100 * ms, Spent: 5 * time.Second}, delayed, Delay, 5 * time.Second, false},
		{"undone, waits grow", Run{Err: in(ClassTransient), Backoff: 100 * ms, Spent: 5 * time.Second, Waits: 1}, delayed, Delay, 30 * time.Second, false},
		{"undone for a day", Run{Err: in(ClassTransient), Backoff: 100 * ms, Spent: 5 * time.Second, Waits: 30}, delayed, DeadLetter, 0, false},
		{"connection lost under the handler", Run{Err: lost, Attempt: 1, Backoff: 100 * ms}, delayed, Retry, 100 * ms, false},
		{"connection lost, in place used up", Run{Err: lost, Attempt: 1, Spent: 5 * time.Second, Backoff: 100 * ms}, delayed, Delay, 5 * time.Second, true},
		{"connection lost each time", Run{Err: lost, Attempt: 10, Spent: 5 * time.Second, Backoff: 100 * ms}, delayed, DeadLetter, 0, true},
		{"connection lost, nothing to delay with", Run{Err: lost, Attempt: 10, Spent: 5 * time.Second, Backoff: 100 * ms}, local, Requeue, 0, false},
		{"forged attempt", Run{Err: cause, Attempt: math.MinInt}, delayed, Delay, 5 * time.Second, true},
		{"claim held elsewhere", Run{Outcome: Later, Err: in(ClassTransient), Backoff: 100 * ms, Spent: 10 * time.Second}, local, Requeue, 0, false},
		{"commit unknown: a new claim decides", Run{Err: in(ClassUnknown), Backoff: 100 * ms}, local, Retry, 100 * ms, false},
		{"store down", Run{Err: in(ClassDown), Attempt: 10}, local, Hold, 0, false},
		{"set-up wrong", Run{Err: in(ClassConfig), Attempt: 10}, local, Hold, 0, false},
		{"shutdown is no letter", Run{Err: in(ClassCancelled), Attempt: 10}, local, Requeue, 0, false},
		{"permanent", Run{Err: Permanent(cause), Attempt: 1}, delayed, DeadLetter, 0, true},
		{"permanent, wrapped", Run{Err: fmt.Errorf("x: %w", Permanent(cause)), Attempt: 1}, delayed, DeadLetter, 0, true},
		{"plain in place", Run{Err: cause, Attempt: 1, Backoff: 100 * ms}, local, Retry, 100 * ms, true},
		{"plain, in place used up", Run{Err: cause, Attempt: 3, Backoff: 2 * time.Second, Spent: 4 * time.Second}, local, DeadLetter, 0, true},
		{"plain, delayed at once", Run{Err: cause, Attempt: 1, Backoff: 100 * ms}, delayed, Delay, 5 * time.Second, true},
		{"plain, second step", Run{Err: cause, Attempt: 2}, delayed, Delay, 30 * time.Second, true},
		{"plain, last step repeats", Run{Err: cause, Attempt: 9}, delayed, Delay, 30 * time.Second, true},
		{"plain, attempts used up", Run{Err: cause, Attempt: 10}, delayed, DeadLetter, 0, true},
		{"goroutine left, nothing to delay with", Run{Err: cause, Attempt: 1, Final: true}, local, DeadLetter, 0, true},
		{"goroutine left, delayed", Run{Err: cause, Attempt: 1, Final: true}, delayed, Delay, 5 * time.Second, true},
		{"wants a short wait", Run{Err: RetryAfter(cause, time.Second), Attempt: 1}, delayed, Retry, time.Second, true},
		{"wants a long wait", Run{Err: RetryAfter(cause, time.Minute), Attempt: 1}, delayed, Delay, time.Minute, true},
		{"wants a long wait, cannot", Run{Err: RetryAfter(cause, time.Minute), Attempt: 1}, local, DeadLetter, 0, true},
		{"wants a wait, attempts used up", Run{Err: RetryAfter(cause, time.Second), Attempt: 10}, delayed, DeadLetter, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Decide(c.run, c.p)
			if d.Action != c.want || d.Wait != c.wait || d.Attempt != c.try {
				t.Errorf("got %s after %s (attempt %v), want %s after %s (attempt %v)", d.Action, d.Wait, d.Attempt, c.want, c.wait, c.try)
			}
			if (d.Action == DeadLetter) != (d.Reason != nil) {
				t.Errorf("%s with reason %v", d.Action, d.Reason)
			}
		})
	}
}

// A letter's reason keeps the handler's own error and says why it was given up.
func TestLetterReasonsSayWhy(t *testing.T) {
	cause := errors.New("no such item")
	for want, r := range map[string]Run{
		"gave up after 10 attempts: no such item":                                {Err: cause, Attempt: 10},
		"wanted a retry after 1m0s, and there is no delayed retry: no such item": {Err: RetryAfter(cause, time.Minute), Attempt: 1},
	} {
		d := Decide(r, DefaultPolicy())
		if !errors.Is(d.Reason, cause) || !strings.HasPrefix(d.Reason.Error(), want) {
			t.Errorf("reason %q, want %q", d.Reason, want)
		}
	}
}

func TestInstructionsSurviveWrapping(t *testing.T) {
	cause := errors.New("cause")
	if Permanent(nil) != nil || RetryAfter(nil, time.Second) != nil {
		t.Error("an instruction made an error of nil")
	}
	if err := fmt.Errorf("a: %w", Permanent(fmt.Errorf("b: %w", cause))); ClassOf(err) != ClassPermanent || !errors.Is(err, cause) {
		t.Errorf("class %s", ClassOf(err))
	}
	if d, ok := retryDelay(fmt.Errorf("a: %w", RetryAfter(cause, time.Minute))); !ok || d != time.Minute {
		t.Errorf("delay %s %v", d, ok)
	}
	if d, _ := retryDelay(RetryAfter(cause, -time.Second)); d != 0 {
		t.Errorf("negative delay %s", d)
	}
}
