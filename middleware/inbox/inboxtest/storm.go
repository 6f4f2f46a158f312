package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Handlers of all manners, copies, and two processes: at the end every message
// that was said to be processed took effect once, and every other one left
// nothing.
func groupStorm(h *test) {
	h.aStorm().run(150)
}

// storm is of copies of many messages, with handlers of all manners.
type storm struct {
	*test
	boxes []*inbox.Inbox
	wrap  func(handler func(ctx context.Context) error) func(ctx context.Context) error // every handler
	over  func(rnd *rand.Rand) (context.Context, context.CancelFunc)                    // the context of every Do
}

func (h *test) aStorm() *storm {
	h.Helper()
	return &storm{
		test:  h,
		boxes: []*inbox.Inbox{h.gathering(inbox.Config{}).box, h.gathering(inbox.Config{}).box},
		wrap:  func(handler func(ctx context.Context) error) func(ctx context.Context) error { return handler },
		over:  func(*rand.Rand) (context.Context, context.CancelFunc) { return h.ctx, func() {} },
	}
}

// run sends each message twice.
func (h *storm) run(messages int) {
	const copies = 2
	var wg sync.WaitGroup
	outcomes := make([]atomic.Int64, messages) // 0 unknown, 1 processed, 2 failed for good
	for i := range messages * copies {
		n := i % messages
		key := fmt.Sprintf("s%03d", n)
		rnd := rand.New(rand.NewPCG(uint64(h.id), uint64(i)))
		wg.Go(func() {
			for h.ctx.Err() == nil {
				ctx, leave := h.over(rnd)
				r := <-start(func() (inbox.Outcome, error) {
					defer func() { _ = recover() }()
					return h.boxes[i%len(h.boxes)].Do(ctx, h.claim(key), h.wrap(h.handler(key, n, rnd.IntN(8))))
				})
				leave()
				switch {
				case r.out == inbox.Processed, r.out == inbox.Duplicate:
					outcomes[n].Store(1)
					return
				case inbox.ClassOf(r.err) == inbox.ClassPermanent:
					if errors.Is(r.err, inbox.ErrSplit) {
						h.Errorf("%s: %v", key, r.err)
					}
					outcomes[n].CompareAndSwap(0, 2)
					return
				}
			}
		})
	}
	wg.Wait()
	for n := range messages {
		key := fmt.Sprintf("s%03d", n)
		switch outcomes[n].Load() {
		case 1:
			h.effects(key, 1)
		case 2:
			h.effects(key, 0)
			h.absent(h.claim(key))
		default:
			h.Errorf("%s did not end", key)
		}
	}
}

// handler is one of many manners.
func (h *storm) handler(key string, n, manner int) func(ctx context.Context) error {
	write := h.write(key)
	cause := errors.New("by chance")
	if n%10 == 9 {
		return func(ctx context.Context) error { return errors.Join(write(ctx), inbox.Permanent(cause)) }
	}
	switch manner {
	case 0:
		return func(ctx context.Context) error { return errors.Join(write(ctx), cause) }
	case 1:
		return func(context.Context) error { return cause }
	case 2:
		return func(ctx context.Context) error {
			_ = write(ctx)
			panic("by chance")
		}
	case 3:
		return func(ctx context.Context) error {
			_ = write(ctx)
			runtime.Goexit()
			return nil
		}
	case 4:
		return func(ctx context.Context) error {
			if err := inbox.Alone(ctx); err != nil {
				return err
			}
			return write(ctx)
		}
	case 5: // the statement fails, and the handler says nothing of it
		return func(ctx context.Context) error {
			_ = h.db.Exec(ctx, "SAVEPOINT mine")
			_ = h.db.Exec(ctx, h.fail(key))
			_ = h.db.Exec(ctx, "ROLLBACK TO SAVEPOINT mine")
			return write(ctx)
		}
	}
	return write
}

// throughASet has a set run handlers.
func throughASet() func(handler func(ctx context.Context) error) func(ctx context.Context) error {
	set := inbox.NewSet(func(ctx context.Context, handlers []func(ctx context.Context) error) error {
		for _, handler := range handlers {
			if err := handler(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	return func(handler func(ctx context.Context) error) func(ctx context.Context) error {
		return func(ctx context.Context) error { return set.Handle(ctx, handler) }
	}
}

// The storm with contexts that end at every moment, deadlines that are too short for
// some, and pools of one and two connections: nobody is lost or runs twice, and
// nothing hangs.
func stormOfLeavers(h *test) {
	s := h.aStorm()
	c := inbox.Config{Group: 16, Deadline: time.Second, LockWait: 300 * time.Millisecond}
	s.boxes = []*inbox.Inbox{h.open(c, 1), h.open(c, 2)}
	set := throughASet()
	s.wrap = func(handler func(ctx context.Context) error) func(ctx context.Context) error {
		switch rand.IntN(8) {
		case 0: // it returns only when its context ends
			return func(ctx context.Context) error {
				_ = handler(ctx)
				<-ctx.Done()
				return ctx.Err()
			}
		case 1, 2, 3:
			return set(handler)
		}
		return handler
	}
	s.over = func(rnd *rand.Rand) (context.Context, context.CancelFunc) {
		return context.WithTimeout(h.ctx, time.Duration(rnd.IntN(1000))*time.Millisecond)
	}
	s.run(60)
	for _, b := range s.boxes {
		if n := b.Waiting(h.consumer); n > 0 {
			h.Errorf("%d still wait", n)
		}
	}
}
