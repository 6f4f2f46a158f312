package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// The second copy of a message is a duplicate: its handler is not called.
func sameKeyTwice(h *test) {
	h.want(inbox.Processed, h.claim("k"), h.write("k"))
	h.want(inbox.Duplicate, h.claim("k"), h.never)
	h.want(inbox.Duplicate, h.claim("k"), h.never)
	h.effects("k", 1)
}

// Fifty copies that come at once to five processes take effect once: one is
// processed, the others are duplicates.
func fiftyCopiesAtOnce(h *test) {
	boxes := make([]*inbox.Inbox, 5)
	for i := range boxes {
		boxes[i] = h.open(inbox.Config{}, 0)
	}
	h.fifty(boxes, "k")
}

// The same in one process, with a pool of two connections.
func fiftyCopiesInOneProcess(h *test) {
	h.fifty([]*inbox.Inbox{h.open(inbox.Config{}, 2)}, "k")
}

func (h *test) fifty(boxes []*inbox.Inbox, key string) {
	h.Helper()
	const copies = 50
	var calls, processed, duplicates atomic.Int64
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range copies {
		wg.Go(func() {
			<-gate
			out, err := h.do(boxes[i%len(boxes)], h.claim(key), func(ctx context.Context) error {
				calls.Add(1)
				return h.write(key)(ctx)
			})
			switch out {
			case inbox.Processed:
				processed.Add(1)
			case inbox.Duplicate:
				duplicates.Add(1)
			default:
				h.Errorf("copy %d: %s, %v", i, out, err)
			}
		})
	}
	close(gate)
	wg.Wait()
	if processed.Load() != 1 || duplicates.Load() != copies-1 {
		h.Errorf("%d processed, %d duplicates of %d copies", processed.Load(), duplicates.Load(), copies)
	}
	// At REPEATABLE READ and above a handler may have run in a transaction that
	// the database then undid; READ COMMITTED never needs that.
	if calls.Load() < 1 {
		h.Errorf("%d calls of the handler", calls.Load())
	}
	h.effects(key, 1)
}

// Many copies of many messages with handlers that fail at first: every message
// takes effect once in the end.
func failingCopies(h *test) {
	const keys, copies, failures = 10, 4, 2
	boxes := []*inbox.Inbox{h.box, h.open(inbox.Config{}, 0)}
	var failed [keys]atomic.Int64
	var wg sync.WaitGroup
	for i := range keys * copies {
		key := i % keys
		wg.Go(func() {
			for {
				out, err := h.do(boxes[i%len(boxes)], h.claim(fmt.Sprint(key)), func(ctx context.Context) error {
					if err := h.write(fmt.Sprint(key))(ctx); err != nil {
						return err
					}
					if failed[key].Add(1) <= failures {
						return errors.New("failing at first")
					}
					return nil
				})
				if out == inbox.Processed || out == inbox.Duplicate {
					return
				}
				if inbox.ClassOf(err) != inbox.ClassPlain || h.ctx.Err() != nil {
					h.Errorf("copy %d: %s, %v", i, out, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for key := range keys {
		h.effects(fmt.Sprint(key), 1)
	}
}

// A handler's error leaves nothing behind, neither the claim nor its writes, and
// reaches the caller; the next copy runs.
func rollbackFreesTheKey(h *test) {
	cause := errors.New("no")
	h.wantErr(inbox.ClassPlain, cause, h.claim("k"), func(ctx context.Context) error {
		if err := h.write("k")(ctx); err != nil {
			return err
		}
		return cause
	})
	h.absent(h.claim("k"))
	h.effects("k", 0)
	h.want(inbox.Processed, h.claim("k"), h.write("k"))
	h.effects("k", 1)
}

// hold starts a run in another process and returns once its handler is inside;
// release lets the handler return err, in every run of it.
func (h *test) hold(box *inbox.Inbox, key string) (done <-chan result, release func(err error)) {
	inside, gate := make(chan struct{}), make(chan struct{})
	var result error
	var once sync.Once
	done = start(func() (inbox.Outcome, error) {
		return h.do(box, h.claim(key), func(ctx context.Context) error {
			if err := h.write(key)(ctx); err != nil {
				return err
			}
			once.Do(func() { close(inside) })
			select {
			case <-gate:
				return result
			case <-h.ctx.Done():
				return h.ctx.Err()
			}
		})
	})
	select {
	case <-inside:
	case <-h.ctx.Done():
		h.Fatal("the first copy did not get its claim")
	}
	return done, func(err error) {
		result = err
		close(gate)
	}
}

// A copy that waits for the claim of another process runs when that one rolls
// back.
func waiterRunsAfterRollback(h *test) {
	first, release := h.hold(h.open(inbox.Config{}, 0), "k")
	second := start(func() (inbox.Outcome, error) { return h.do(h.box, h.claim("k"), h.write("k")) })
	h.waiting()
	release(errors.New("no"))
	if r := h.wait(first); r.out != inbox.Failed && (r.out != inbox.Duplicate || !h.s.groups) { // run again alone, it may find the second one's claim
		h.Errorf("first copy: %s, %v", r.out, r.err)
	}
	if r := h.wait(second); r.out != inbox.Processed || r.err != nil {
		h.Errorf("second copy: %s, %v", r.out, r.err)
	}
	h.effects("k", 1)
}

// A copy that waits for the claim of another process is a duplicate when that
// one commits.
func waiterIsDuplicateAfterCommit(h *test) {
	first, release := h.hold(h.open(inbox.Config{}, 0), "k")
	second := start(func() (inbox.Outcome, error) { return h.do(h.box, h.claim("k"), h.never) })
	h.waiting()
	release(nil)
	if r := h.wait(first); r.out != inbox.Processed {
		h.Errorf("first copy: %s, %v", r.out, r.err)
	}
	if r := h.wait(second); r.out != inbox.Duplicate || r.err != nil {
		h.Errorf("second copy: %s, %v", r.out, r.err)
	}
	h.effects("k", 1)
}

// A claim that another process holds for longer than LockWait makes the outcome
// Later, of class Transient; it leaves nothing and can be run again.
func heldTooLongIsLater(h *test) {
	short := h.open(inbox.Config{LockWait: 50 * time.Millisecond}, 0)
	first, release := h.hold(h.open(inbox.Config{}, 0), "k")
	out, err := h.once(h.ctx, short, h.claim("k"), h.never)
	if out != inbox.Later || inbox.ClassOf(err) != inbox.ClassTransient || !errors.Is(err, inbox.ErrBusy) {
		h.Errorf("second copy: %s, class %s, %v", out, inbox.ClassOf(err), err)
	}
	release(nil)
	if r := h.wait(first); r.out != inbox.Processed {
		h.Errorf("first copy: %s, %v", r.out, r.err)
	}
	h.wantOn(short, inbox.Duplicate, h.claim("k"), h.never)
	h.effects("k", 1)
}

// A message with another key does not wait for a handler that is at work.
func otherKeysDoNotWait(h *test) {
	first, release := h.hold(h.box, "k")
	h.want(inbox.Processed, h.claim("other"), h.write("other"))
	release(nil)
	if r := h.wait(first); r.out != inbox.Processed {
		h.Errorf("first: %s, %v", r.out, r.err)
	}
	h.effects("k", 1)
	h.effects("other", 1)
}

// Two consumers with one key each run once.
func consumerScope(h *test) {
	other := h.consumer + "-other"
	h.register(h.box, other)
	h.want(inbox.Processed, h.claim("k"), h.write("k"))
	h.want(inbox.Processed, inbox.Claim{Consumer: other, Key: "k"}, h.write("k"))
	h.want(inbox.Duplicate, h.claim("k"), h.never)
	h.want(inbox.Duplicate, inbox.Claim{Consumer: other, Key: "k"}, h.never)
	h.effects("k", 2)
}
