package rabbit

import (
	"context"
	"math/rand/v2"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The bounds of the pause before a delivery is put back, where nobody sets them.
const (
	requeueFirst = 100 * time.Millisecond
	requeueLimit = 5 * time.Second
)

// pause before a delivery goes back to its queue, exponential in n, with jitter:
// it keeps returns from becoming a loop, and from using up the delivery limit of
// a quorum queue in a moment.
func pause(n int64, shortest, longest time.Duration) time.Duration {
	d := shortest << min(max(n, 0), 20)
	if d <= 0 || d > longest {
		d = longest
	}
	return d/2 + rand.N(d/2+1)
}

// whileOpen returns a context that ends with ctx, and when ch is closed. Whoever
// merely waits with a delivery of ch in hand gives up then: the broker has it
// again.
func whileOpen(ctx context.Context, ch *amqp.Channel) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	go func() {
		for range closed { // at most one error, then it is closed
			continue
		}
		cancel()
	}()
	return ctx
}
