package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// times of single claims, handler and commit included, in one kind of window.
type times struct {
	took time.Duration
	each []time.Duration
}

func (t *times) percentile(p int) time.Duration {
	if len(t.each) == 0 {
		return 0
	}
	return t.each[min(len(t.each)-1, len(t.each)*p/100)]
}

func (t *times) print(what string) {
	unit := 10 * time.Microsecond
	fmt.Printf("%-24s %8s %9d %10.0f %9s %9s %9s\n", what, t.took.Round(time.Second), len(t.each), float64(len(t.each))/max(t.took.Seconds(), 0.001),
		t.percentile(50).Round(unit), t.percentile(99).Round(unit), t.percentile(100).Round(unit))
}

// meter sorts claims by the kind of window in which they ran. Those that ran into
// the next one count for neither.
type meter struct {
	window atomic.Int64 // odd while the purge is at work
	failed atomic.Int64

	mu     sync.Mutex
	kinds  [2]times
	turned time.Time
}

// turn begins the next window.
func (m *meter) turn() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if !m.turned.IsZero() {
		m.kinds[m.window.Load()%2].took += now.Sub(m.turned)
	}
	m.turned = now
	m.window.Add(1)
}

// sequence numbers the keys of all workers.
var sequence atomic.Int64

// claim at full rate until ctx ends.
func (m *meter) claim(ctx context.Context, box *inbox.Inbox) {
	var each [2][]time.Duration
	for ctx.Err() == nil {
		key := fmt.Sprintf("%08x-%d", sequence.Add(1)*2654435761%(1<<32), os.Getpid()) // spread over the index
		window, start := m.window.Load(), time.Now()
		out, err := box.Do(ctx, inbox.Claim{Consumer: consumer, Key: key, Fingerprint: inbox.Fingerprint([]byte(key))}, func(context.Context) error { return nil })
		if out != inbox.Processed && ctx.Err() == nil && m.failed.Add(1) == 1 {
			fmt.Println("  failed:", out, err)
		}
		if m.window.Load() == window {
			each[window%2] = append(each[window%2], time.Since(start))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind := range each {
		m.kinds[kind].each = append(m.kinds[kind].each, each[kind]...)
	}
}

// beside runs fn with the workers at full rate, and returns the times without and
// with the purge at work, as turn said.
func (m *meter) beside(ctx context.Context, box *inbox.Inbox, workers int, fn func()) (without, with *times) {
	wctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { m.claim(wctx, box) })
	}
	fn()
	stop()
	wg.Wait()
	for kind := range m.kinds {
		slices.Sort(m.kinds[kind].each)
	}
	return &m.kinds[0], &m.kinds[1]
}
