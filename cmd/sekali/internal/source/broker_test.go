package source

import (
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A server that hangs up during the handshake is seen by whoever is first: the
// reader, or the next send.
func TestABrokerThatHangsUpIsSaidSo(t *testing.T) {
	for _, err := range []error{
		fmt.Errorf("dial: %w", amqp.ErrClosed),
		&amqp.Error{Code: amqp.FrameError, Reason: "EOF"},
	} {
		if got := ExplainBroker("RabbitMQ at host", err).Error(); !strings.HasPrefix(got, "RabbitMQ at host: the server closed the connection: check") {
			t.Errorf("%v: %q", err, got)
		}
	}
}
