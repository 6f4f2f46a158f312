package settle

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sekali-mq/sekali/internal/backoff"
)

// The waits between two probes of a held consumer.
const (
	probeFirst = 200 * time.Millisecond
	probeLimit = 5 * time.Second
)

// gate holds the deliveries of one consumer. While it is held one of them, the
// leader, is let through after each backoff step; the others wait until a
// leader's run opens the gate.
type gate struct {
	lead chan struct{} // capacity 1: whoever has sent is the leader

	mu     sync.Mutex
	opened chan struct{} // non-nil while held; closed when the gate opens
	since  time.Time
	probes *backoff.Backoff
	deaths int // letters in a row, see breakerDeaths
	lives  int // messages that were processed
}

func newGate() *gate {
	return &gate{lead: make(chan struct{}, 1), probes: backoff.New(probeFirst, probeLimit)}
}

var errHeldTooLong = errors.New("held for as long as a delivery may be kept")

// enter waits until the gate is open, or until the caller has become the leader
// and its backoff step is over. The leader must call open or step down.
func (g *gate) enter(ctx context.Context, p *patience) (leader bool, err error) {
	for {
		g.mu.Lock()
		opened := g.opened
		g.mu.Unlock()
		if opened == nil {
			return false, nil
		}
		select {
		case <-opened:
			continue
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-p.over():
			return false, errHeldTooLong
		case g.lead <- struct{}{}:
		}
		if !g.isHeld() { // opened while the lead was being taken
			<-g.lead
			continue
		}
		if err := g.step(ctx); err != nil {
			<-g.lead
			return false, err
		}
		return true, nil
	}
}

// step is the leader's wait before its next run.
func (g *gate) step(ctx context.Context) error {
	g.mu.Lock()
	wait := g.probes.Next()
	g.mu.Unlock()
	return backoff.Sleep(ctx, wait)
}

// hold closes the gate; first tells whether it was open before.
func (g *gate) hold() (first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		return false
	}
	g.opened = make(chan struct{})
	g.since = time.Now()
	g.probes.Reset()
	return true
}

// open lets everybody through and returns for how long they were held.
func (g *gate) open() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		return 0
	}
	close(g.opened)
	g.opened = nil
	return time.Since(g.since)
}

// stepDown gives the lead to the next in line.
func (g *gate) stepDown() { <-g.lead }

func (g *gate) isHeld() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened != nil
}

// died counts letters in a row; alive ends the row.
func (g *gate) died() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deaths++
	return g.deaths
}

func (g *gate) alive() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deaths = 0
	g.lives++
}

// lived counts the messages that were processed.
func (g *gate) lived() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lives
}

// broken reports whether the breaker keeps the gate held.
func (g *gate) broken() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.deaths >= breakerDeaths
}
