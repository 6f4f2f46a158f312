package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// calls are those of a set's func: the items of each, by key.
type calls struct {
	mu  sync.Mutex
	all [][]string
}

func (c *calls) add(keys []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, slices.Clone(keys))
}

// of tells how often a key was among the items.
func (c *calls) of(key string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, keys := range c.all {
		if slices.Contains(keys, key) {
			n++
		}
	}
	return n
}

func (c *calls) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// set writes an effect for each of its items, and then runs then with them.
func (h *test) set(prefix string, then func(ctx context.Context, keys []string) error) (*inbox.Set[string], *calls) {
	c := &calls{}
	return inbox.NewSet(func(ctx context.Context, keys []string) error {
		c.add(keys)
		for _, key := range keys {
			if err := h.write(prefix + key)(ctx); err != nil {
				return err
			}
		}
		return then(ctx, keys)
	}), c
}

func fine(context.Context, []string) error { return nil }

// handle gives the key to a set.
func handle(set *inbox.Set[string], key string) func(ctx context.Context) error {
	return func(ctx context.Context) error { return set.Handle(ctx, key) }
}

// A set gets all new members of a group in one call, and no duplicate; its context
// belongs to none of their claims.
func setIsOneCall(h *test) {
	keys := names(10)
	h.want(inbox.Processed, h.claim(keys[4]), h.write(keys[4]))
	g := h.gathering(inbox.Config{})
	set, calls := h.set("", func(ctx context.Context, _ []string) error {
		if c, ok := inbox.Current(ctx); ok {
			h.Errorf("the set has the claim %s", c)
		}
		return nil
	})
	for key, r := range g.run(keys, func(key string) func(context.Context) error {
		return func(ctx context.Context) error {
			err := set.Handle(ctx, key)
			if c, ok := inbox.Current(ctx); !ok || c.Key != key {
				h.Errorf("%s: its context has the claim %s", key, c)
			}
			return err
		}
	}) {
		want := inbox.Processed
		if key == keys[4] {
			want = inbox.Duplicate
		}
		if r.out != want || r.err != nil || want == inbox.Processed && g.size(key) != len(keys)-1 {
			h.Errorf("%s: %s, %v, with %d others", key, r.out, r.err, g.size(key)-1)
		}
		h.effects(key, 1)
	}
	if calls.count() != 1 || calls.of(keys[4]) != 0 {
		h.Errorf("calls: %v", calls.all)
	}
}

// One item makes the set fail: its message alone fails, with its own error, panic
// or exit, and the others are in two calls at most.
func setWithAFailingMember(h *test) {
	cause := errors.New("no")
	for n, fail := range map[string]func(ctx context.Context) error{
		"returned":  func(context.Context) error { return inbox.Permanent(cause) },
		"swallowed": func(ctx context.Context) error { _ = h.db.Exec(ctx, "COMMIT"); return nil },
		"panicked":  func(context.Context) error { panic(cause) },
		"left":      func(context.Context) error { runtime.Goexit(); return nil },
	} {
		h.consumer += "x"
		g := h.gathering(inbox.Config{})
		h.register(g.box, h.consumer)
		keys := names(9)
		bad := keys[4]
		var left sync.Map // who panicked or left
		set, calls := h.set(n, func(ctx context.Context, keys []string) error {
			if slices.Contains(keys, bad) {
				return fail(ctx)
			}
			return nil
		})
		results := g.run(keys, func(key string) func(context.Context) error {
			return func(ctx context.Context) error {
				returned := false
				defer func() {
					if !returned {
						left.Store(key, true)
					}
				}()
				err := set.Handle(ctx, key)
				returned = true
				return err
			}
		})
		for key, r := range results {
			want, effects := inbox.Processed, 1
			if key == bad {
				want, effects = inbox.Failed, 0
			}
			if r.out != want || key != bad && calls.of(key) > 2 {
				h.Errorf("%s, %s: %s, %v after %d calls", n, key, r.out, r.err, calls.of(key))
			}
			h.effects(n+key, effects)
			if key == bad {
				h.absent(h.claim(key))
			} else if _, ok := left.Load(key); ok {
				h.Errorf("%s, %s bore what another one did", n, key)
			}
		}
		if n == "returned" && (!errors.Is(results[bad].err, cause) || inbox.ClassOf(results[bad].err) != inbox.ClassPermanent) {
			h.Errorf("the failing member was told %v", results[bad].err)
		}
	}
}

// A set that ends the transaction where the handle cannot see it is split, all of
// it; who had returned before is decided by the claim.
func setThatIsEnded(h *test) {
	for i, statement := range h.s.c.Unseen {
		for _, ret := range []error{nil, errors.New("no")} {
			h.consumer += "x"
			prefix := fmt.Sprintf("ended-%d-%v-", i, ret)
			g := h.gathering(inbox.Config{})
			h.register(g.box, h.consumer)
			keys := names(6)
			other, last := keys[1], keys[5]
			set, _ := h.set(prefix, func(ctx context.Context, _ []string) error {
				return errors.Join(h.db.Exec(ctx, statement), ret)
			})
			later, _ := h.set(prefix, fine)
			for key, r := range g.run(keys, func(key string) func(context.Context) error {
				switch key {
				case other:
					return h.write(prefix + key)
				case last:
					return handle(later, key)
				}
				return handle(set, key)
			}) {
				if key != other && key != last {
					h.checkErr(r.out, r.err, inbox.ClassPermanent, inbox.ErrSplit)
					continue
				}
				if inbox.ClassOf(r.err) == inbox.ClassUnknown {
					r.out, r.err = h.do(g.box, h.claim(key), h.write(prefix+key))
				}
				if r.out != inbox.Processed && r.out != inbox.Duplicate {
					h.Errorf("%s, %s: %s, %v", statement, key, r.out, r.err)
				}
				h.effects(prefix+key, 1)
			}
		}
	}
}

// Two sets and handlers that belong to none share a transaction; when one of the
// latter fails, nobody is in more than two calls.
func setBesideOthers(h *test) {
	cause := errors.New("no")
	for _, fails := range []bool{false, true} {
		h.consumer += "x"
		prefix := fmt.Sprintf("%v-", fails)
		g := h.gathering(inbox.Config{})
		h.register(g.box, h.consumer)
		a, ofA := h.set(prefix, fine)
		b, ofB := h.set(prefix, fine)
		keys := names(9)
		bad := keys[5]
		for key, r := range g.run(keys, func(key string) func(context.Context) error {
			switch n := slices.Index(keys, key) % 3; {
			case fails && key == bad:
				return func(ctx context.Context) error { return errors.Join(h.write(prefix+key)(ctx), cause) }
			case n == 0:
				return handle(a, key)
			case n == 1:
				return handle(b, key)
			}
			return h.write(prefix + key)
		}) {
			want, effects := inbox.Processed, 1
			if fails && key == bad {
				want, effects = inbox.Failed, 0
			}
			if r.out != want {
				h.Errorf("%s%s: %s, %v", prefix, key, r.out, r.err)
			}
			h.effects(prefix+key, effects)
		}
		if ofA.count() != 1 || ofB.count() != 1 {
			h.Errorf("%sthe sets were called for %v and %v", prefix, ofA.all, ofB.all)
		}
	}
}

// A set that asks for Alone gets each message by itself.
func setWithALoner(h *test) {
	g := h.gathering(inbox.Config{})
	var asked atomic.Int64
	set := inbox.NewSet(func(ctx context.Context, keys []string) error {
		asked.Add(1)
		if err := inbox.Alone(ctx); err != nil {
			return err
		}
		if len(keys) != 1 {
			h.Errorf("alone with %v", keys)
		}
		return h.write(keys[0])(ctx)
	})
	keys := names(5)
	for key, r := range g.run(keys, func(key string) func(context.Context) error { return handle(set, key) }) {
		if r.out != inbox.Processed || g.size(key) != 1 {
			h.Errorf("%s: %s, %v, of %d", key, r.out, r.err, g.size(key))
		}
		h.effects(key, 1)
	}
	if asked.Load() != int64(len(keys))+1 {
		h.Errorf("it was called %d times", asked.Load())
	}
}

// A handler that fails after its set succeeded leaves nothing, and the others stay
// together.
func setsHandlerFailsAfterwards(h *test) {
	cause := errors.New("no")
	g := h.gathering(inbox.Config{})
	set, calls := h.set("", fine)
	keys := names(7)
	bad := keys[3]
	for key, r := range g.run(keys, func(key string) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := set.Handle(ctx, key); err != nil || key != bad {
				return err
			}
			return cause
		}
	}) {
		want, effects := inbox.Processed, 1
		if key == bad {
			want, effects = inbox.Failed, 0
		}
		if r.out != want || key != bad && calls.of(key) > 2 {
			h.Errorf("%s: %s, %v after %d calls", key, r.out, r.err, calls.of(key))
		}
		h.effects(key, effects)
	}
	h.absent(h.claim(bad))
}

// After a set took its item the handler has no transaction, and no second item; a
// call that it leaves behind ends.
func setsHandleIsOver(h *test) {
	g := h.gathering(inbox.Config{})
	set, calls := h.set("", fine)
	keys := names(4)
	left := make(chan error, 1)
	for key, r := range g.run(keys, func(key string) func(context.Context) error {
		return func(ctx context.Context) error {
			switch key {
			case keys[1]:
				if err := set.Handle(ctx, key); err != nil {
					return err
				}
				if err := h.write("late")(ctx); err == nil {
					h.Errorf("%s wrote after its set", key)
				}
				if err := set.Handle(ctx, "second"); inbox.ClassOf(err) != inbox.ClassConfig {
					h.Errorf("a second item: %v", err)
				}
			case keys[2]:
				returned := make(chan struct{})
				defer close(returned)
				go func() {
					<-returned
					<-ctx.Done()
					left <- set.Handle(ctx, "left behind")
				}()
				return h.write(key)(ctx)
			default:
				return set.Handle(ctx, key)
			}
			return nil
		}
	}) {
		if r.out != inbox.Processed {
			h.Errorf("%s: %s, %v", key, r.out, r.err)
		}
		h.effects(key, 1)
	}
	h.effects("late", 0)
	select {
	case err := <-left:
		if err == nil {
			h.Error("a call that was left behind succeeded")
		}
	case <-h.ctx.Done():
		h.Error("a call that was left behind hangs")
	}
	h.effects("left behind", 0)
	if calls.of("second") > 0 || calls.of("left behind") > 0 && calls.count() == 1 {
		h.Errorf("calls: %v", calls.all)
	}
}

// Where there is no group, and after a statement of the handler's own, a set gets
// one item, in the handler's transaction.
func setOfOne(h *test) {
	set, calls := h.set("", func(ctx context.Context, _ []string) error {
		if c, ok := inbox.Current(ctx); ok {
			h.Errorf("the set has the claim %s", c)
		}
		return nil
	})
	h.want(inbox.Processed, h.claim("single"), handle(set, "single"))
	h.effects("single", 1)

	g := h.gathering(inbox.Config{})
	keys := names(5)
	for key, r := range g.run(keys, func(key string) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := h.write("before " + key)(ctx); err != nil {
				return err
			}
			return set.Handle(ctx, key)
		}
	}) {
		if r.out != inbox.Processed || g.size(key) != len(keys) {
			h.Errorf("%s: %s, %v, of %d", key, r.out, r.err, g.size(key))
		}
		h.effects("before "+key, 1)
		h.effects(key, 1)
	}
	if calls.count() != len(keys)+1 {
		h.Errorf("calls: %v", calls.all)
	}
}

// The storm of handlers of all manners, through a set.
func setStorm(h *test) {
	s := h.aStorm()
	s.wrap = throughASet()
	s.run(150)
}
