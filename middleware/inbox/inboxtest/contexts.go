package inboxtest

import (
	"context"
	"fmt"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// A context that is over before the claim: nothing runs, nothing is left.
func contextCancelledBefore(h *test) {
	ctx, cancel := context.WithCancel(h.ctx)
	cancel()
	out, err := h.once(ctx, h.box, h.claim("k"), h.never)
	h.checkErr(out, err, inbox.ClassCancelled, context.Canceled)
	h.absent(h.claim("k"))
	h.want(inbox.Processed, h.claim("k"), h.write("k"))
}

// A handler that finishes its work although its context was cancelled meanwhile,
// as at a shutdown, is committed.
func contextCancelledInHandler(h *test) {
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	out, err := h.once(ctx, h.box, h.claim("k"), func(ctx context.Context) error {
		if err := h.write("k")(ctx); err != nil {
			return err
		}
		cancel()
		return h.write("k")(context.WithoutCancel(ctx))
	})
	if out != inbox.Processed || err != nil {
		h.Errorf("%s, %v", out, err)
	}
	h.effects("k", 2)
	h.want(inbox.Duplicate, h.claim("k"), h.never)
}

// A context that is cancelled around the commit: the run is committed, or
// nothing of it is left and the next one runs; never both, never half.
func contextCancelledAtCommit(h *test) {
	const rounds = 20
	for i := range rounds {
		key := fmt.Sprint(i)
		ctx, cancel := context.WithCancel(h.ctx)
		_, _ = h.once(ctx, h.box, h.claim(key), func(ctx context.Context) error {
			if err := h.write(key)(ctx); err != nil {
				return err
			}
			go cancel()
			return nil
		})
		cancel()
		if out, err := h.do(h.box, h.claim(key), h.write(key)); out != inbox.Processed && out != inbox.Duplicate {
			h.Errorf("%s, %v", out, err)
		}
		h.effects(key, 1)
	}
}

// A statement that fails because its context was cancelled leaves nothing; the
// delivery goes back.
func contextCancelledInStatement(h *test) {
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	out, err := h.once(ctx, h.box, h.claim("k"), func(ctx context.Context) error {
		if err := h.write("k")(ctx); err != nil {
			return err
		}
		cancel()
		return h.write("k")(ctx)
	})
	h.checkErr(out, err, inbox.ClassCancelled, context.Canceled)
	h.absent(h.claim("k"))
	h.effects("k", 0)
	h.want(inbox.Processed, h.claim("k"), h.write("k"))
	h.effects("k", 1)
}

// A copy whose context ends while it waits for another's claim gives up and
// leaves nothing.
func contextCancelledWhileWaiting(h *test) {
	first, release := h.hold(h.open(inbox.Config{}, 0), "k")
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	second := start(func() (inbox.Outcome, error) { return h.once(ctx, h.box, h.claim("k"), h.never) })
	h.waiting()
	cancel()
	r := h.wait(second)
	h.checkErr(r.out, r.err, inbox.ClassCancelled, nil)
	release(nil)
	if r := h.wait(first); r.out != inbox.Processed {
		h.Errorf("first copy: %s, %v", r.out, r.err)
	}
	h.want(inbox.Duplicate, h.claim("k"), h.never)
	h.effects("k", 1)
}

// A handler that takes longer than the transaction's deadline is a failed
// attempt, whatever it returns, and leaves nothing.
func deadlineInHandler(h *test) {
	box := h.open(inbox.Config{LockWait: 250 * time.Millisecond, Deadline: 500 * time.Millisecond}, 0)
	for _, ret := range []error{nil, context.DeadlineExceeded} {
		called := false
		handler := func(ctx context.Context) error {
			called = true
			if err := h.write("k")(ctx); err != nil {
				return err
			}
			<-ctx.Done()
			// The transaction ends in the same moment as the handler's context, or right
			// after it.
			for err := error(nil); err == nil; {
				err = h.write("k")(context.WithoutCancel(ctx))
			}
			return ret
		}
		out, err := h.do(box, h.claim("k"), handler)
		for !called && h.ctx.Err() == nil { // a slow machine may not come that far
			out, err = h.do(box, h.claim("k"), handler)
		}
		h.checkErr(out, err, inbox.ClassPlain, nil)
	}
	h.absent(h.claim("k"))
	h.effects("k", 0)
	h.want(inbox.Processed, h.claim("k"), h.write("k"))
}
