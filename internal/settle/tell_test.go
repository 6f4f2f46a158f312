package settle

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// told settles and carries out one delivery, and returns what the log says of it.
func told(t *testing.T, p inbox.Policy, before letter.Facts, fn func(attempt int) (inbox.Outcome, error)) []string {
	t.Helper()
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	d := Delivery{Consumer: "c", Before: before, Key: func() string { return "k" }, Run: run(fn)}
	v := New(p, log).Settle(t.Context(), d)
	if v.Action != inbox.Ack {
		v.CarryOut(t.Context(), t.Context(), inbox.Claim{Consumer: "c", Key: "k"}, letter.Facts{}, Exits{
			Delay:   func(_ context.Context, _ letter.Facts, wait time.Duration) (time.Duration, error) { return wait, nil },
			Letter:  func(context.Context, letter.Facts) error { return nil },
			Timeout: time.Second,
			Log:     log.With("consumer", "c", "key", "k"),
		})
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func says(t *testing.T, line string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(line, w) {
			t.Errorf("%q does not say %q", line, w)
		}
	}
}

// Each failed attempt in place is one line, and the last one is the letter's.
func TestFailedAttemptInPlaceIsOneWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := inbox.DefaultPolicy()
		p.MaxAttempts = 3
		lines := told(t, p, letter.Facts{}, func(int) (inbox.Outcome, error) { return inbox.Failed, errBroken })
		if len(lines) != 3 {
			t.Fatalf("%d lines, want one an attempt:\n%s", len(lines), strings.Join(lines, "\n"))
		}
		says(t, lines[0], "level=WARN", "handler failed", "consumer=c", "key=k", "attempt=1", "wait=", "err=broken")
		says(t, lines[1], "level=WARN", "attempt=2", "err=broken")
		says(t, lines[2], "level=ERROR", "became a letter", "attempt=3")
	})
}

func TestDelayedRetryOfFailedHandlerIsAWarning(t *testing.T) {
	p := inbox.DefaultPolicy()
	p.Delays = inbox.DefaultDelays()
	lines := told(t, p, letter.Facts{Attempts: 1}, func(int) (inbox.Outcome, error) { return inbox.Failed, errBroken })
	if len(lines) != 1 {
		t.Fatalf("log:\n%s", strings.Join(lines, "\n"))
	}
	says(t, lines[0], "level=WARN", "handler failed", "consumer=c", "key=k", "attempt=2", "wait=30s", "err=broken")
}

// A panic is told once, with its stack.
func TestPanicIsOneErrorAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := inbox.DefaultPolicy()
		p.MaxAttempts = 2
		lines := told(t, p, letter.Facts{}, func(int) (inbox.Outcome, error) { panic("boom") })
		if len(lines) != 3 {
			t.Fatalf("log:\n%s", strings.Join(lines, "\n"))
		}
		says(t, lines[0], "level=ERROR", "handler panicked", "key=k", "attempt=1", "stack=")
		says(t, lines[1], "level=ERROR", "handler panicked", "attempt=2")
		says(t, lines[2], "level=ERROR", "became a letter")
	})
}

// What the database undid, and a claim held elsewhere, are nobody's fault: not
// told in place, and no attempt when delayed.
func TestWaitsAreNotToldAsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := inbox.DefaultPolicy()
		p.Delays = inbox.DefaultDelays()
		busy := &inbox.Error{Op: "claim", Class: inbox.ClassTransient, Err: inbox.ErrBusy}
		for name, c := range map[string]struct {
			before letter.Facts
			err    error
			counts string
		}{
			"deadlock":   {letter.Facts{}, errUndone, "waits=1"},
			"held claim": {letter.Facts{Waits: 2}, busy, "waits=3"},
		} {
			lines := told(t, p, c.before, func(int) (inbox.Outcome, error) { return inbox.Later, c.err })
			if len(lines) != 1 {
				t.Fatalf("%s: log:\n%s", name, strings.Join(lines, "\n"))
			}
			says(t, lines[0], "level=INFO", "message will be tried again", c.counts, "wait=")
			if strings.Contains(lines[0], "attempt=") {
				t.Errorf("%s: %q counts attempts", name, lines[0])
			}
		}
	})
}

// A handler that failed and whose consumer is then held for long did not fail
// again.
func TestHeldAfterAFailureIsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := inbox.DefaultPolicy()
		p.Delays = inbox.DefaultDelays()
		soon := inbox.RetryAfter(errors.New("soon"), time.Second)
		lines := told(t, p, letter.Facts{}, func(attempt int) (inbox.Outcome, error) {
			if attempt == 1 {
				return inbox.Failed, soon
			}
			return inbox.Failed, errDown
		})
		says(t, lines[0], "level=WARN", "attempt=1", "wait=1s")
		says(t, lines[len(lines)-1], "level=INFO", "message will be tried again")
	})
}
