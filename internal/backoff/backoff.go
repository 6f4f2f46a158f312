// Package backoff is the one schedule of waits that everything here repeats by:
// exponential, with full jitter, so that what failed together does not come
// back together.
package backoff

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// floor keeps a jittered wait from being no wait at all.
const floor = time.Millisecond

// Backoff gives one wait after the other. Not safe for concurrent use.
type Backoff struct{ b *backoff.ExponentialBackOff }

// New doubles from first to limit. Each wait is drawn evenly between nothing
// (well, a millisecond) and the step.
func New(first, limit time.Duration) *Backoff {
	b := backoff.NewExponentialBackOff()
	// The library draws from [0, 2 x interval] at a factor of 1.
	b.InitialInterval = max(first/2, floor)
	b.MaxInterval = max(limit/2, floor)
	b.Multiplier = 2
	b.RandomizationFactor = 1
	b.Reset()
	return &Backoff{b: b}
}

// Next returns the next wait, never less than a millisecond nor more than the
// limit.
func (b *Backoff) Next() time.Duration { return max(b.b.NextBackOff(), floor) }

// Reset begins again at the first step.
func (b *Backoff) Reset() { b.b.Reset() }

// Sleep waits for d; it returns the cause of ctx if that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
