package inboxtest

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// An outage of something else that the handler uses (a service, another
// database) is the handler's failed attempt. It does not hold the consumer, as an
// outage of the inbox's own database does.
func outageElsewhere(h *test) {
	for i, cause := range []error{
		&net.OpError{Op: "dial", Net: "tcp", Err: io.ErrUnexpectedEOF},
		&net.DNSError{Err: "no such host", Name: "payments"},
		io.EOF,
		net.ErrClosed,
	} {
		name := fmt.Sprint("elsewhere-", i)
		out, err := h.once(h.ctx, h.box, h.claim(name), func(ctx context.Context) error {
			if err := h.write(name)(ctx); err != nil {
				return err
			}
			return fmt.Errorf("call the payment service: %w", cause)
		})
		if c := inbox.ClassOf(err); out != inbox.Failed || c != inbox.ClassPlain {
			h.Errorf("%v: %s, class %s, want plain", cause, out, c)
		}
		h.effects(name, 0)
	}
}
