package inboxtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// gathering has handlers of a consumer come at once: each waits until all are
// there.
type gathering struct {
	*test
	box  *inbox.Inbox
	size func(key string) int // of the transaction that committed the key
}

func (h *test) gathering(c inbox.Config) *gathering {
	h.Helper()
	g := &gathering{test: h}
	var sizes sync.Map
	c.Group = cmp.Or(c.Group, 64)
	c.Hooks.Done = func(_ context.Context, e inbox.Event) { sizes.Store(e.Claim.Key, e.Group) }
	g.box = h.open(c, 0)
	g.size = func(key string) int {
		n, _ := sizes.Load(key)
		size, _ := n.(int)
		return size
	}
	return g
}

// run calls Do for every handler at once, in order, and returns what became of
// them. fns are by key; the keys run in the order given.
func (g *gathering) run(keys []string, fn func(key string) func(ctx context.Context) error) map[string]result {
	g.Helper()
	inside, gate := make(chan struct{}), make(chan struct{})
	first := start(func() (inbox.Outcome, error) {
		return g.box.Do(g.ctx, g.claim(fmt.Sprintf("gate-%d", g.mates.next())), func(context.Context) error {
			close(inside)
			<-gate
			return nil
		})
	})
	<-inside
	done := make(map[string]<-chan result, len(keys))
	for i, key := range keys {
		done[key] = start(func() (out inbox.Outcome, err error) {
			defer func() {
				if v := recover(); v != nil {
					out, err = inbox.Failed, fmt.Errorf("panic: %v", v)
				}
			}()
			return g.box.Do(g.ctx, g.claim(key), fn(key))
		})
		g.queued(g.box, g.consumer, i+1, nil)
	}
	close(gate)
	g.wait(first)
	out := make(map[string]result, len(keys))
	for key, c := range done {
		out[key] = g.wait(c)
	}
	return out
}

func names(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("m%02d", i)
	}
	return keys
}

// Members that wait together are committed by one transaction, and each handler
// runs once.
func groupIsOneTransaction(h *test) {
	g := h.gathering(inbox.Config{})
	var calls atomic.Int64
	keys := names(10)
	for key, r := range g.run(keys, func(key string) func(context.Context) error {
		return func(ctx context.Context) error {
			calls.Add(1)
			return h.write(key)(ctx)
		}
	}) {
		if r.out != inbox.Processed || g.size(key) != len(keys) {
			h.Errorf("%s: %s, %v, with %d others", key, r.out, r.err, g.size(key)-1)
		}
		h.effects(key, 1)
	}
	if calls.Load() != int64(len(keys)) {
		h.Errorf("%d calls", calls.Load())
	}
}

// One member fails after it wrote: it alone fails, with its own error, and no
// other handler runs more than twice.
func groupWithAFailingMember(h *test) {
	cause := errors.New("no")
	for n, fail := range map[string]func(ctx context.Context) error{
		"returned":  func(context.Context) error { return inbox.Permanent(cause) },
		"swallowed": func(ctx context.Context) error { _ = h.db.Exec(ctx, "COMMIT"); return nil },
	} {
		g := h.gathering(inbox.Config{})
		var mu sync.Mutex
		calls := map[string]int{}
		keys := names(9)
		bad := keys[4]
		results := g.run(keys, func(key string) func(context.Context) error {
			return func(ctx context.Context) error {
				mu.Lock()
				calls[key]++
				mu.Unlock()
				if err := h.write(n + key)(ctx); err != nil || key != bad {
					return err
				}
				return fail(ctx)
			}
		})
		for key, r := range results {
			want, effects := inbox.Processed, 1
			if key == bad {
				want, effects = inbox.Failed, 0
			}
			if r.out != want || calls[key] > 2 {
				h.Errorf("%s, %s: %s, %v after %d calls", n, key, r.out, r.err, calls[key])
			}
			h.effects(n+key, effects)
			if key == bad {
				h.absent(h.claim(key))
			}
		}
		if n == "returned" && (!errors.Is(results[bad].err, cause) || inbox.ClassOf(results[bad].err) != inbox.ClassPermanent) {
			h.Errorf("the failing member was told %v", results[bad].err)
		}
		h.consumer += "x"
		h.register(h.box, h.consumer)
	}
}

// A member that fails before it sent a statement costs the others nothing: no
// handler runs twice.
func groupWithACleanFailure(h *test) {
	g := h.gathering(inbox.Config{})
	cause := errors.New("no")
	var calls atomic.Int64
	keys := names(9)
	for key, r := range g.run(keys, func(key string) func(context.Context) error {
		return func(ctx context.Context) error {
			calls.Add(1)
			switch key {
			case keys[3]:
				return cause
			case keys[5]:
				return inbox.Skip
			}
			return h.write(key)(ctx)
		}
	}) {
		want := inbox.Processed
		switch key {
		case keys[3]:
			want = inbox.Failed
		case keys[5]:
			want = inbox.Unclaimed
		}
		if r.out != want || want == inbox.Processed && g.size(key) != len(keys)-2 {
			h.Errorf("%s: %s, %v, of %d", key, r.out, r.err, g.size(key))
		}
		if want != inbox.Processed {
			h.absent(h.claim(key))
		}
	}
	if calls.Load() != int64(len(keys)) {
		h.Errorf("%d calls", calls.Load())
	}
}

// A handler that asks for Alone is run again by itself, and the others stay
// together.
func groupWithALoner(h *test) {
	g := h.gathering(inbox.Config{})
	keys := names(5)
	var asked atomic.Int64
	for key, r := range g.run(keys, func(key string) func(context.Context) error {
		return func(ctx context.Context) error {
			if key == keys[2] {
				asked.Add(1)
				if err := inbox.Alone(ctx); err != nil {
					return err
				}
			}
			return h.write(key)(ctx)
		}
	}) {
		want := len(keys) - 1
		if key == keys[2] {
			want = 1
		}
		if r.out != inbox.Processed || g.size(key) != want {
			h.Errorf("%s: %s, %v, of %d, want %d", key, r.out, r.err, g.size(key), want)
		}
		h.effects(key, 1)
	}
	if asked.Load() != 2 {
		h.Errorf("it asked %d times", asked.Load())
	}
}

// Members that are there already are judged, and the others are committed.
func groupWithDuplicates(h *test) {
	keys := names(6)
	h.want(inbox.Processed, h.claim(keys[1]), h.write(keys[1]))
	h.want(inbox.Processed, h.claim(keys[4]), h.write(keys[4]))
	g := h.gathering(inbox.Config{})
	for key, r := range g.run(keys, h.write) {
		want := inbox.Processed
		if key == keys[1] || key == keys[4] {
			want = inbox.Duplicate
		}
		if r.out != want || r.err != nil {
			h.Errorf("%s: %s, %v", key, r.out, r.err)
		}
		h.effects(key, 1)
	}
}

// A member's savepoints are its own: it cannot undo what another one did.
func groupKeepsSavepointsApart(h *test) {
	g := h.gathering(inbox.Config{})
	keys := names(3)
	for key, r := range g.run(keys, func(key string) func(context.Context) error {
		return func(ctx context.Context) error {
			if key == keys[0] {
				return errors.Join(h.db.Exec(ctx, "SAVEPOINT ours"), h.write(key)(ctx))
			}
			err := h.db.Exec(ctx, "ROLLBACK TO SAVEPOINT ours")
			if err == nil {
				h.Errorf("%s returned to another one's savepoint", key)
			}
			return inbox.Permanent(err)
		}
	}) {
		want, effects := inbox.Failed, 0
		if key == keys[0] {
			want, effects = inbox.Processed, 1
		}
		if r.out != want {
			h.Errorf("%s: %s, %v", key, r.out, r.err)
		}
		h.effects(key, effects)
	}
}

// A handler that ends the transaction where the handle cannot see it, and returns an
// error or not: what was complete stays processed, what had not run runs, and the
// offender's claim is split.
func groupThatIsEnded(h *test) {
	type ending struct {
		send      func(ctx context.Context, statement string) error
		statement string
		err       error
	}
	var endings []ending
	for _, err := range []error{nil, errors.New("no")} {
		for _, s := range h.s.c.Unseen {
			endings = append(endings, ending{h.db.Exec, s, err})
		}
		if h.db.Raw != nil { // where it is given in groups, too; elsewhere it asks for Alone
			endings = append(endings, ending{h.db.Raw, "COMMIT", err}, ending{h.db.Raw, "ROLLBACK", err})
		}
	}
	for i, e := range endings {
		h.consumer += "x"
		name, statement := fmt.Sprintf("ended-%d-", i), e.statement
		g := h.gathering(inbox.Config{})
		keys := names(6)
		bad := keys[3]
		for key, r := range g.run(keys, func(key string) func(context.Context) error {
			return func(ctx context.Context) error {
				if err := h.write(name + key)(ctx); err != nil || key != bad {
					return err
				}
				return errors.Join(e.send(ctx, statement), e.err)
			}
		}) {
			switch {
			case key == bad:
				h.checkErr(r.out, r.err, inbox.ClassPermanent, inbox.ErrSplit)
			case inbox.ClassOf(r.err) == inbox.ClassUnknown:
				out, err := h.do(g.box, h.claim(key), h.write(name+key))
				if out != inbox.Processed && out != inbox.Duplicate {
					h.Errorf("%s, %s again: %s, %v", statement, key, out, err)
				}
				h.effects(name+key, 1)
			case r.out != inbox.Processed:
				h.Errorf("%s, %s: %s, %v", statement, key, r.out, r.err)
			default:
				h.effects(name+key, 1)
			}
		}
	}
}
