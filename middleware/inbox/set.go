package inbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Set is a handler that takes all new messages of a group in one call, for work
// that one statement does for many: an INSERT of many rows, an UPDATE that joins a
// list. Without group commit, and where messages run alone, it gets one at a time.
//
// Each message keeps its own claim and its own outcome. When fn fails, everything is
// undone and it is called again for each message by itself, so that only those fail
// that fail alone: fn must do the same work for many as for each of them.
type Set[T any] struct {
	fn func(ctx context.Context, items []T) error
}

// NewSet makes a Set of fn. Its ctx holds the transaction, as that of every handler,
// but not the values of a message: Current and Attempt have to be asked of the
// context that a message brought. fn is never called for no items, and for one
// consumer and tenant by one goroutine at a time, except for messages that run alone.
func NewSet[T any](fn func(ctx context.Context, items []T) error) *Set[T] {
	return &Set[T]{fn: fn}
}

// Handle gives an item to the set and returns when fn returned that had it among its
// items. Call it from the handler of one message, with its context, once, and return
// its error unchanged. After it returned the handler can no longer use its
// transaction. A handler that sent a statement before gets a call of fn to itself.
func (s *Set[T]) Handle(ctx context.Context, item T) error {
	sc := scopeOf(ctx)
	if sc != nil && sc.member != nil {
		g := &gathered{set: s, item: item, result: make(chan error, 1), run: func(ctx context.Context, gs []*gathered) error {
			items := make([]T, len(gs))
			for i, g := range gs {
				items[i], _ = g.item.(T)
			}
			return s.fn(ctx, items)
		}}
		if given, err := sc.gather(g); given {
			return err
		}
	}
	return s.fn(ofSet(ctx, sc), []T{item})
}

// gathered is one item that waits for the call of its set.
type gathered struct {
	member *member
	set    any // which of the consumer's sets
	item   any
	run    func(ctx context.Context, gs []*gathered) error // calls the set's fn
	result chan error                                      // capacity 1: what Handle returns
}

// ofSet hides the claim that the context belongs to: with group commit there would
// be many.
func ofSet(ctx context.Context, s *scope) context.Context {
	return context.WithValue(ctx, setKey{}, s)
}

// given is a scope's part in sets.
type given struct {
	mu   sync.Mutex
	over bool // the handler returned
	once bool // it gave an item already

	kill func()        // of the handler's handle
	end  chan struct{} // made for the item; closed when the handler returned
}

// close tells that the handler returned: a call of Handle that it left behind must
// not wait.
func (g *given) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	if g.end != nil {
		close(g.end)
	}
}

// admit tells the pass of an item; the handler of the item's member is running.
// false when the member has to have a call to itself. The session is not asked after
// the handler returned: it is another one's then.
func (g *given) admit(m *member, sess Session, item *gathered) (given bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.over:
		return true, errOver
	case g.once:
		return true, Configf("set", "Handle was called again by one handler: give a set one item a message, once")
	case m.solitary || !sess.Clean():
		return false, nil
	}
	g.once, g.end = true, make(chan struct{})
	g.kill()
	item.member = m
	m.answer <- answer{gathered: item} // the pass waits for it
	return true, nil
}

var (
	errOver  = fmt.Errorf("set: the handler that the context belongs to returned: %w", context.Canceled)
	errAgain = errors.New("set: everything was undone, the message runs again: return this error unchanged")
)

// gather has the member's item wait for the call of its set; false when the member
// has to have a call to itself.
func (s *scope) gather(g *gathered) (given bool, err error) {
	if given, err := s.given.admit(s.member, s.sess, g); !given || err != nil {
		return given, err
	}
	select {
	case err := <-g.result:
		return true, err
	case <-s.given.end:
		return true, errOver
	}
}
