package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// once is one Do. Through groups it is the middle one of three members that share
// a transaction: a first Do keeps the consumer busy until all three wait. What the
// one in the middle does must not harm the other two.
func (h *test) once(ctx context.Context, box *inbox.Inbox, c inbox.Claim, fn func(ctx context.Context) error) (inbox.Outcome, error) {
	if !h.s.groups || h.mates.ended(nil) {
		return box.Do(ctx, c, fn)
	}
	inside, gate := make(chan struct{}), make(chan struct{})
	var begun, opened sync.Once
	open := func() { opened.Do(func() { close(gate) }) }
	first := start(func() (inbox.Outcome, error) {
		return box.Do(h.ctx, inbox.Claim{Consumer: c.Consumer, Key: fmt.Sprintf("first-%d-%d", h.id, h.mates.next())}, func(ctx context.Context) error {
			begun.Do(func() { close(inside) })
			select {
			case <-gate:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	select {
	case <-inside:
	case <-first: // the consumer takes nothing
		return box.Do(ctx, c, fn)
	}

	over := make(chan struct{})
	before := h.mate(box, c.Consumer)
	together := h.queued(box, c.Consumer, 1, before)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer open()
		if together && h.queued(box, c.Consumer, 2, over) {
			after := h.mate(box, c.Consumer)
			wg.Go(func() { <-after })
			h.queued(box, c.Consumer, 3, over)
		}
	})
	defer func() { // also when the handler panics or leaves
		close(over)
		wg.Wait()
		<-before
		<-first
	}()
	out, err := box.Do(ctx, c, fn)
	h.mates.ended(err)
	return out, err
}

// queued returns true once n Do of the consumer wait, false when that can not be
// any more. After many failures members run alone, and do not wait.
func (h *test) queued(box *inbox.Inbox, consumer string, n int, over <-chan struct{}) bool {
	for box.Waiting(consumer) < n {
		select {
		case <-over:
			return false
		case <-h.ctx.Done():
			return false
		default:
			runtime.Gosched()
		}
	}
	return true
}

// mates are the other members.
type mates struct {
	mu    sync.Mutex
	n     int
	off   bool
	check sync.Once
	done  map[string]bool // whether it was committed, by effect
}

// ended tells whether a handler has ended a transaction: then there are no groups
// any more.
func (m *mates) ended(err error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off = m.off || errors.Is(err, inbox.ErrSplit)
	return m.off
}

func (m *mates) next() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n++
	return m.n
}

// mate starts one other member.
func (h *test) mate(box *inbox.Inbox, consumer string) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		h.through(box, consumer)
	}()
	return over
}

// through tries one other member until it is through, or the database is away.
func (h *test) through(box *inbox.Inbox, consumer string) {
	name := fmt.Sprintf("mate-%d", h.mates.next())
	h.mates.check.Do(func() { h.Cleanup(h.checkMates) })
	for {
		out, err := box.Do(h.ctx, inbox.Claim{Consumer: consumer, Key: h.effect(name)}, h.write(name))
		fine := out == inbox.Processed || out == inbox.Duplicate
		// A test that has broken the network mends it when its own member is through.
		if fine || inbox.ClassOf(err) == inbox.ClassDown || h.ctx.Err() != nil {
			h.mates.mu.Lock()
			defer h.mates.mu.Unlock()
			if h.mates.done == nil {
				h.mates.done = make(map[string]bool)
			}
			h.mates.done[name] = fine
			return
		}
		switch inbox.ClassOf(err) {
		case inbox.ClassTransient, inbox.ClassUnknown, inbox.ClassCancelled:
		default:
			h.Errorf("another member of the group: %s, %v", out, err)
			return
		}
	}
}

// checkMates: whoever was told that it is committed has one effect.
func (h *test) checkMates() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h.mates.mu.Lock()
	defer h.mates.mu.Unlock()
	for name, fine := range h.mates.done {
		n, err := 0, context.Canceled
		for err != nil && ctx.Err() == nil { // a test of faults may have left the server starting
			n, err = h.db.Count(ctx, fmt.Sprintf("SELECT count(*) FROM inboxtest_effects WHERE name = '%s'", h.effect(name)))
		}
		if err != nil {
			h.Errorf("count effects of %s: %v", name, err)
			return
		}
		if fine && n != 1 || n > 1 {
			h.Errorf("another member of the group was told that it is committed: %v; it has %d effects", fine, n)
		}
	}
}
