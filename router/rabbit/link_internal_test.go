package rabbit

import (
	"errors"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The client tells of a frame it cannot read in the reason of an error of the
// connection; the operator must see that a message is the cause.
func TestUnreadableMessageIsNamedAsTheCause(t *testing.T) {
	for _, cause := range []*amqp.Error{amqp.ErrSyntax, amqp.ErrFrameTooLarge} {
		err := unreadable(&amqp.Error{Code: amqp.FrameError, Reason: cause.Error()})
		if !strings.Contains(err.Error(), "headers larger than frame_max") {
			t.Errorf("%v: %v", cause, err)
		}
	}
	plain := &amqp.Error{Code: amqp.ConnectionForced, Reason: "shutdown"}
	if err := unreadable(plain); !errors.Is(err, plain) || strings.Contains(err.Error(), "frame_max") {
		t.Errorf("got %v", err)
	}
}
