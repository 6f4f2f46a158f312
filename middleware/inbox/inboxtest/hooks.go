package inboxtest

import (
	"context"
	"errors"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// A hook that panics (a broken metric) does not turn a committed message into a
// failed one.
func hookThatPanics(h *test) {
	box := h.open(inbox.Config{Hooks: inbox.Hooks{Done: func(context.Context, inbox.Event) { panic("metrics") }}}, 0)
	out, err := h.once(h.ctx, box, h.claim("k"), h.write("k"))
	if out != inbox.Processed || err != nil {
		h.Errorf("%s, %v", out, err)
	}
	h.effects("k", 1)
}

// A claim inside its own claim is refused on whatever way it comes, through
// another inbox too: the inner one would commit whatever becomes of the outer.
func claimInsideThroughAnother(h *test) {
	if h.s.c.OneWriter {
		return // the other inbox would wait for the turn that the first one has
	}
	other := h.open(inbox.Config{}, 0)
	var inner error
	cause := errors.New("outer fails")
	h.wantErr(inbox.ClassPlain, cause, h.claim("outer"), func(ctx context.Context) error {
		_, err := h.once(ctx, other, h.claim("other"), func(ctx context.Context) error {
			_, inner = h.box.Do(ctx, h.claim("inner"), h.write("inner"))
			return nil
		})
		return errors.Join(cause, err)
	})
	if inbox.ClassOf(inner) != inbox.ClassConfig {
		h.Errorf("class %s, %v", inbox.ClassOf(inner), inner)
	}
	h.effects("inner", 0)
}
