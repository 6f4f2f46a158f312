package inboxtest

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// taking returns after that much time, or with the error of the handler's context.
func taking(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A member that runs out of time behind others of its group runs again, alone: what
// they took of its deadline makes it no failed attempt. Who had nearly all of it is
// told.
func groupSharesADeadline(h *test) {
	const deadline, others = time.Second, 600 * time.Millisecond
	g := h.gathering(inbox.Config{Deadline: deadline, LockWait: deadline / 3})
	keys := names(3)
	var took, late atomic.Bool
	handler := func(key string) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := h.write(key)(ctx); err != nil {
				return err
			}
			switch at, _ := ctx.Deadline(); {
			case key == keys[0] && !took.Swap(true):
				return taking(ctx, others)
			case key == keys[1] && !late.Swap(true) && time.Until(at) < deadline/2:
				<-ctx.Done()
			}
			return ctx.Err()
		}
	}
	for key, r := range g.run(keys, handler) {
		// A busy machine may need the deadline for the claim itself, which counts as no
		// attempt of the message. What may not be is that it counts as one.
		for key == keys[1] && r.out != inbox.Processed && inbox.ClassOf(r.err) == inbox.ClassDown && h.ctx.Err() == nil {
			r.out, r.err = g.box.Do(h.ctx, h.claim(key), handler(key))
		}
		if r.out != inbox.Processed && key == keys[1] {
			h.Errorf("%s: %s, %v", key, r.out, r.err)
		}
	}
	h.effects(keys[1], 1)

	h.consumer += "x"
	g = h.gathering(inbox.Config{Deadline: deadline, LockWait: deadline / 3})
	for key, r := range g.run(keys, func(key string) func(context.Context) error {
		return func(ctx context.Context) error {
			err := h.write("late " + key)(ctx)
			if key == keys[0] {
				<-ctx.Done()
				err = ctx.Err()
			}
			return err
		}
	}) {
		if want := key == keys[0]; (r.out != inbox.Processed) != want || want && inbox.ClassOf(r.err) != inbox.ClassPlain {
			h.Errorf("late, %s: %s, %v", key, r.out, r.err)
		}
	}
}

// Where handlers are slow, who waits does not wait for all who came before: another
// group runs beside theirs.
func slowGroupsRunSideBySide(h *test) {
	if !h.s.c.SideBySide {
		return
	}
	const slow = 2 * time.Millisecond // the engine's bound is a quarter of that
	g := h.gathering(inbox.Config{})
	for i := range 4 { // as many in a row
		keys := []string{fmt.Sprintf("a-%d", i), fmt.Sprintf("b-%d", i), fmt.Sprintf("c-%d", i)}
		for key, r := range g.run(keys, func(string) func(context.Context) error {
			return func(ctx context.Context) error { return taking(ctx, slow) }
		}) {
			if r.out != inbox.Processed {
				h.Fatalf("%s: %s, %v", key, r.out, r.err)
			}
		}
	}
	inside, gate := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	defer release()
	holder := start(func() (inbox.Outcome, error) {
		return g.box.Do(h.ctx, h.claim("holder"), func(context.Context) error {
			close(inside)
			<-gate
			return nil
		})
	})
	<-inside
	began := make(chan result, 1) // any of them
	var others [16]<-chan result
	for i := range others {
		key := fmt.Sprintf("other-%d", i)
		others[i] = start(func() (inbox.Outcome, error) {
			return g.box.Do(h.ctx, h.claim(key), func(ctx context.Context) error {
				select {
				case began <- result{}:
				default:
				}
				return h.write(key)(ctx)
			})
		})
	}
	h.wait(began)
	release()
	for i, other := range others {
		if r := h.wait(other); r.out != inbox.Processed {
			h.Errorf("other %d: %s, %v", i, r.out, r.err)
		}
	}
	if r := h.wait(holder); r.out != inbox.Processed {
		h.Errorf("holder: %s, %v", r.out, r.err)
	}
}

// Members that the budget left over are taken back, however many they are, and run
// in the next group, once.
func groupsOfTheLargestSize(h *test) {
	const budget = 200 * time.Millisecond // of the engine
	g := h.gathering(inbox.Config{Group: math.MaxInt})
	keys := make([]string, 2*inbox.MaxGroup)
	for i := range keys {
		keys[i] = fmt.Sprintf("m%04d", i)
	}
	var calls atomic.Int64
	for key, r := range g.run(keys, func(key string) func(context.Context) error {
		return func(ctx context.Context) error {
			calls.Add(1)
			if key == keys[0] {
				return taking(ctx, budget+budget/2)
			}
			return nil
		}
	}) {
		if r.out != inbox.Processed || key == keys[len(keys)-1] && g.size(key) < 2 || g.size(key) > inbox.MaxGroup {
			h.Errorf("%s: %s, %v, of %d", key, r.out, r.err, g.size(key))
		}
	}
	if calls.Load() != int64(len(keys)) {
		h.Errorf("%d calls", calls.Load())
	}
}

// Members whose contexts all end while their group waits for a connection wait no
// longer, as one alone would not.
func groupIsLeftWhileItBegins(h *test) {
	var asked atomic.Int64 // by all that are about to queue
	box := h.open(inbox.Config{Group: 64, Tenant: func(context.Context) string { asked.Add(1); return "" }}, 1)
	busy := h.consumer + "-busy"
	h.register(box, busy)
	inside, gate := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	defer release()
	holder := start(func() (inbox.Outcome, error) { // it has the only connection
		return box.Do(h.ctx, inbox.Claim{Consumer: busy, Key: "k"}, func(context.Context) error {
			close(inside)
			<-gate
			return nil
		})
	})
	<-inside
	for grouped := false; !grouped && h.ctx.Err() == nil; {
		asked.Store(0)
		var leave [3]context.CancelFunc
		var left [3]<-chan result
		for i := range left {
			var ctx context.Context
			ctx, leave[i] = context.WithCancel(h.ctx)
			defer leave[i]()
			left[i] = start(func() (inbox.Outcome, error) { return box.Do(ctx, h.claim(fmt.Sprint(i)), h.never) })
		}
		for asked.Load() < int64(len(left)) && h.ctx.Err() == nil {
			runtime.Gosched()
		}
		// Whoever came first is alone, most likely the first one, and the others are the
		// next group when it has left.
		leave[0]()
		for n := 2; n > 1 && h.ctx.Err() == nil; {
			n = box.Waiting(h.consumer)
			grouped = n == 0
		}
		for i := range left {
			leave[i]()
		}
		for _, c := range left {
			if r := h.wait(c); r.out != inbox.Failed || inbox.ClassOf(r.err) != inbox.ClassCancelled {
				h.Errorf("%s, %v", r.out, r.err)
			}
		}
	}
	release()
	if r := h.wait(holder); r.out != inbox.Processed {
		h.Errorf("the holder: %s, %v", r.out, r.err)
	}
}
