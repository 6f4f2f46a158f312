package rabbit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/internal/letter"
)

// DelayerConfig configures a Delayer. The zero value fits what Topology
// declares.
type DelayerConfig struct {
	// Steps for which there are retry queues, in rising order. Defaults to
	// DefaultRetrySteps.
	Steps []time.Duration
	// RetryQueue names the retry queue of one step. Defaults to RetryQueue.
	RetryQueue func(queue string, step time.Duration) string
}

// Delayer puts a message into a retry queue of the queue it came from, whose
// TTL brings it back there. One queue has one delay: with a TTL for each message
// a short one would wait behind a long one. It is safe for concurrent use.
type Delayer struct {
	config DelayerConfig
	queues *Publisher
	rand   func() float64
}

// NewDelayer publishes through p, which stays the owner of its channel.
func NewDelayer(p *Publisher, c DelayerConfig) (*Delayer, error) {
	var errs []error
	if p == nil {
		errs = append(errs, errors.New("publisher is nil: make one with NewPublisher"))
	}
	if c.Steps == nil {
		c.Steps = DefaultRetrySteps()
	}
	if len(c.Steps) == 0 {
		errs = append(errs, errors.New("Steps is empty: without retry queues there is no delayed retry"))
	}
	errs = append(errs, checkSteps("Steps", c.Steps))
	if c.RetryQueue == nil {
		c.RetryQueue = RetryQueue
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("rabbit delayer: %w", err)
	}
	c.Steps = slices.Clone(c.Steps)
	return &Delayer{config: c, queues: p.ToQueues(), rand: rand.Float64}, nil
}

// Check looks for the retry queues of a queue. The error names the first that
// is missing and wraps ErrNoQueue; then a message for that step would be an
// error of Delay.
func (d *Delayer) Check(ctx context.Context, queue string) error {
	for _, step := range d.config.Steps {
		if err := d.queues.wire.conn.FindQueue(ctx, d.config.RetryQueue(queue, step)); err != nil {
			return fmt.Errorf("delayed retry of %q: %w", queue, err)
		}
	}
	return nil
}

// Delay publishes msg, which came from our Subscriber, to the retry queue whose
// step is nearest to want, or to a neighbour of it half of the time, so that
// what failed together does not come back together. It returns the step. Nil
// means confirmed: only then may the delivery be acked; after any error the
// message is still with the caller. See Publisher.ToQueues for what is sent; the
// names of the queue, exchange and routing key the message came by are added.
func (d *Delayer) Delay(ctx context.Context, msg *message.Message, want time.Duration) (time.Duration, error) {
	del, ok := letter.FromContext(msg.Context())
	if !ok {
		return 0, fmt.Errorf("delay message %q: it did not come from this package's Subscriber: %w", msg.UUID, ErrNotSent)
	}
	step := d.config.Steps[d.pick(want)]
	queue, exchange, key := del.Origin()
	out := msg.CopyWithContext()
	out.Metadata[letter.HeaderQueue] = queue
	out.Metadata[letter.HeaderExchange] = exchange
	out.Metadata[letter.HeaderRoutingKey] = key
	if err := d.queues.PublishEach(ctx, d.config.RetryQueue(del.Queue, step), out)[0]; err != nil {
		return 0, fmt.Errorf("delay by %s: %w", step, err)
	}
	return step, nil
}

// pick gives the index of a step.
func (d *Delayer) pick(want time.Duration) int {
	steps, nearest := d.config.Steps, 0
	for i, s := range steps {
		if (s - want).Abs() < (steps[nearest] - want).Abs() {
			nearest = i
		}
	}
	switch r := d.rand(); {
	case r < 0.25 && nearest > 0:
		return nearest - 1
	case r >= 0.75 && nearest < len(steps)-1:
		return nearest + 1
	}
	return nearest
}
