package inboxtest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Handlers that panic because their set failed owe their claims no mark: what
// another process then makes of these messages stands.
func setsHandlersPanic(h *test) {
	g := h.gathering(inbox.Config{})
	set := inbox.NewSet(func(_ context.Context, keys []string) error {
		if len(keys) > 1 {
			return errors.New("no")
		}
		return nil
	})
	keys := names(4)
	for key, r := range g.run(keys, func(key string) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := set.Handle(ctx, key); err != nil {
				panic(err)
			}
			return nil
		}
	}) {
		if r.out != inbox.Failed {
			h.Errorf("%s: %s, %v", key, r.out, r.err)
		}
		h.absent(h.claim(key))
	}
	for _, key := range keys {
		h.want(inbox.Processed, h.claim(key), h.write(key))
		h.wantOn(g.box, inbox.Duplicate, h.claim(key), h.never)
		h.effects(key, 1)
	}
}

// A claim inside its own claim is refused in a set, too, when the members come from
// handlers of another inbox.
func setInsideAnotherClaim(h *test) {
	if h.s.c.OneWriter {
		return // the other inbox would wait for the turn that the first one has
	}
	g := h.gathering(inbox.Config{})
	cause := errors.New("outer fails")
	var inner error
	h.wantErr(inbox.ClassPlain, cause, h.claim("outer"), func(outer context.Context) error {
		set := inbox.NewSet(func(ctx context.Context, keys []string) error {
			if len(keys) > 1 {
				_, inner = h.box.Do(ctx, h.claim("inner"), h.write("inner"))
			}
			return nil
		})
		own := h.ctx
		h.ctx = outer
		defer func() { h.ctx = own }()
		for key, r := range g.run(names(3), func(key string) func(context.Context) error { return handle(set, key) }) {
			if r.out != inbox.Processed {
				h.Errorf("%s: %s, %v", key, r.out, r.err)
			}
		}
		return cause
	})
	if inbox.ClassOf(inner) != inbox.ClassConfig {
		h.Errorf("class %s, %v", inbox.ClassOf(inner), inner)
	}
	h.effects("inner", 0)
}

// Calls of Handle that a handler left behind disturb nobody who has the transaction
// after it.
func setsLateHandle(h *test) {
	g := h.gathering(inbox.Config{})
	set, calls := h.set("", fine)
	keys := names(2)
	stop := make(chan struct{})
	var left sync.WaitGroup
	var runs atomic.Int64
	for key, r := range g.run(keys, func(key string) func(context.Context) error {
		if key == keys[0] {
			return func(ctx context.Context) error {
				left.Go(func() {
					<-ctx.Done()
					for {
						select {
						case <-stop:
							return
						default:
							_ = set.Handle(ctx, key)
						}
					}
				})
				return h.write(key)(ctx)
			}
		}
		return func(ctx context.Context) error {
			runs.Add(1)
			for range 200 {
				if err := h.write(key)(ctx); err != nil {
					return err
				}
			}
			return nil
		}
	}) {
		if r.out != inbox.Processed {
			h.Errorf("%s: %s, %v", key, r.out, r.err)
		}
	}
	close(stop)
	left.Wait()
	h.effects(keys[0], 1)
	h.effects(keys[1], 200)
	if runs.Load() != 1 || calls.count() > 0 {
		h.Errorf("%d runs of the other one; %d calls of the set", runs.Load(), calls.count())
	}
}
