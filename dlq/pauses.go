package dlq

import (
	"sync"
	"time"

	"github.com/sekali-mq/sekali/internal/backoff"
)

// pauses are the waits of all messages of one collector together.
type pauses struct {
	mu sync.Mutex
	b  *backoff.Backoff
}

func newPauses() *pauses { return &pauses{b: backoff.New(againFirst, againLimit)} }

func (p *pauses) next() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Next()
}

func (p *pauses) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.b.Reset()
}
