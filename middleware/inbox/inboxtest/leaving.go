package inboxtest

import (
	"context"
	"runtime"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// times is more often than the small pools of these tests have connections.
const times = 5

// A panic is rolled back and goes on up with its value; no connection is lost by
// it.
func panics(h *test) {
	box := h.open(inbox.Config{}, 2)
	for range times {
		func() {
			defer func() {
				if v := recover(); v != "boom" {
					h.Errorf("recovered %v", v)
				}
			}()
			_, _ = h.once(h.ctx, box, h.claim("k"), func(ctx context.Context) error {
				if err := h.write("k")(ctx); err != nil {
					return err
				}
				panic("boom")
			})
			h.Error("Do returned")
		}()
	}
	h.absent(h.claim("k"))
	h.effects("k", 0)
	h.wantOn(box, inbox.Processed, h.claim("k"), h.write("k"))
	h.effects("k", 1)
}

// A handler that leaves its goroutine is rolled back; no connection is lost by
// it.
func goexit(h *test) {
	box := h.open(inbox.Config{}, 2)
	for range times {
		r := h.wait(start(func() (inbox.Outcome, error) {
			out, err := h.once(h.ctx, box, h.claim("k"), func(ctx context.Context) error {
				if err := h.write("k")(ctx); err != nil {
					return err
				}
				runtime.Goexit()
				return nil
			})
			h.Error("Do returned")
			return out, err
		}))
		if r.out != inbox.Failed {
			h.Errorf("outcome %s", r.out)
		}
	}
	h.absent(h.claim("k"))
	h.effects("k", 0)
	h.wantOn(box, inbox.Processed, h.claim("k"), h.write("k"))
	h.effects("k", 1)
}
