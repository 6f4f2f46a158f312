package rabbit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Topology declares what is missing on the broker. Set it where the service
// owns its queues; leave it nil where operators do, then nothing is declared and
// queues are only looked for.
//
// For a queue "orders" it makes, unless they exist:
//
//	orders             quorum, delivery limit 20, dead letters go to orders.dlq at least once
//	orders.dlq         quorum, no delivery limit: a crashing reader cannot lose letters
//	orders.retry.5s    quorum, for each step: TTL, then back to orders, at least once
//
// Dead letters travel through the default exchange, so that there is no
// exchange or binding that could be missing. What exists is never changed; where
// it has other arguments, that is logged, once.
//
// At-least-once dead-lettering needs the stream_queue feature flag (RabbitMQ 3.10
// to 3.13: rabbitmqctl enable_feature_flag stream_queue; on by default in new
// clusters). See https://www.rabbitmq.com/docs/quorum-queues#dead-lettering.
type Topology struct {
	// QueueType is "quorum" or "classic". Classic queues have no delivery limit and
	// dead-letter at most once. Defaults to "quorum".
	QueueType string
	// DeliveryLimit of the queue; negative means none where the broker allows
	// that. Not used with classic queues. Defaults to 20.
	DeliveryLimit int
	// DeadLetterQueue names the DLQ of a queue; "" means none. Defaults to
	// DeadLetterQueue.
	DeadLetterQueue func(queue string) string
	// RetrySteps are the delays for which there is a retry queue. An empty slice
	// that is not nil means none. Defaults to DefaultRetrySteps.
	RetrySteps []time.Duration
	// RetryQueue names the retry queue of one step. Defaults to RetryQueue.
	RetryQueue func(queue string, step time.Duration) string
	// PolicyOwned leaves limits, dead-lettering and overflow of queue and DLQ to
	// the operators' policies. Retry queues keep their arguments: they do not work
	// without. Defaults to false.
	PolicyOwned bool
}

// DefaultRetrySteps returns inbox.DefaultDelays: a queue for each wait.
func DefaultRetrySteps() []time.Duration { return inbox.DefaultDelays() }

// DeadLetterQueue is "<queue>.dlq".
func DeadLetterQueue(queue string) string { return queue + ".dlq" }

// RetryQueue is "<queue>.retry.<step>", as in orders.retry.5s or orders.retry.2m.
func RetryQueue(queue string, step time.Duration) string {
	s := step.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return queue + ".retry." + s
}

func (t *Topology) withDefaults() (*Topology, error) {
	if t == nil {
		return nil, nil
	}
	c := *t
	var errs []error
	orDefault(&c.QueueType, "quorum")
	orDefault(&c.DeliveryLimit, 20)
	if c.DeadLetterQueue == nil {
		c.DeadLetterQueue = DeadLetterQueue
	}
	if c.RetryQueue == nil {
		c.RetryQueue = RetryQueue
	}
	if c.RetrySteps == nil {
		c.RetrySteps = DefaultRetrySteps()
	}
	if c.QueueType != "quorum" && c.QueueType != "classic" {
		errs = append(errs, fmt.Errorf("Topology.QueueType is %q: must be quorum or classic", c.QueueType))
	}
	errs = append(errs, checkSteps("Topology.RetrySteps", c.RetrySteps))
	return &c, errors.Join(errs...)
}

func checkSteps(field string, steps []time.Duration) error {
	for i, s := range steps {
		if s < time.Millisecond || s%time.Millisecond != 0 || s.Milliseconds() > math.MaxInt32 {
			return fmt.Errorf("%s: %s must be whole milliseconds, at least one, at most 24 days", field, s)
		}
		if i > 0 && s <= steps[i-1] {
			return fmt.Errorf("%s: %s must be longer than the step before it", field, s)
		}
	}
	return nil
}

// queue is one queue to be declared.
type queue struct {
	name string
	args amqp.Table
}

func (t *Topology) queues(name string, server serverVersion) []queue {
	main := amqp.Table{"x-queue-type": t.QueueType}
	qs := []queue{{name, main}}
	dlq := t.DeadLetterQueue(name)
	quorum := t.QueueType == "quorum"
	if !t.PolicyOwned {
		if quorum {
			t.limit(main, t.DeliveryLimit, server)
		}
		if dlq != "" {
			deadLetter(main, dlq, quorum)
		}
	}
	if dlq != "" {
		args := amqp.Table{"x-queue-type": t.QueueType}
		if quorum && !t.PolicyOwned {
			t.limit(args, -1, server)
		}
		qs = append(qs, queue{dlq, args})
	}
	for _, step := range t.RetrySteps {
		args := amqp.Table{"x-queue-type": t.QueueType, "x-message-ttl": step.Milliseconds()}
		deadLetter(args, name, quorum)
		qs = append(qs, queue{t.RetryQueue(name, step), args})
	}
	return qs
}

// limit sets a delivery limit. No limit is what brokers before 4.0 have when
// nothing is said; they take -1 and then drop a message at its first return.
func (t *Topology) limit(args amqp.Table, n int, server serverVersion) {
	switch {
	case n >= 0:
		args["x-delivery-limit"] = int64(n)
	case server.major >= 4:
		args["x-delivery-limit"] = int64(-1)
	}
}

func deadLetter(args amqp.Table, to string, quorum bool) {
	args["x-dead-letter-exchange"] = ""
	args["x-dead-letter-routing-key"] = to
	if quorum {
		args["x-dead-letter-strategy"] = "at-least-once"
		args["x-overflow"] = "reject-publish" // at-least-once needs it
	}
}

// declare makes what is missing for a topic. Everything is durable.
func (t *Topology) declare(ctx context.Context, l *link, topics Topics, topic string, consume bool) error {
	exchange, name := topics.Exchange(topic), ""
	if consume || exchange == "" {
		name = topics.Queue(topic)
	}
	if exchange != "" {
		err := l.onChannel(ctx, func(_ *amqp.Connection, ch *amqp.Channel) error {
			return ch.ExchangeDeclare(exchange, topics.ExchangeKind, true, false, false, false, nil)
		})
		if err != nil {
			return fmt.Errorf("declare exchange %q as %s: %w", exchange, topics.ExchangeKind, err)
		}
	}
	if name == "" {
		return nil
	}
	if err := t.declareQueues(ctx, l, name); err != nil {
		return err
	}
	if exchange == "" {
		return nil
	}
	err := l.onChannel(ctx, func(_ *amqp.Connection, ch *amqp.Channel) error {
		return ch.QueueBind(name, topics.BindingKey(topic), exchange, false, nil)
	})
	if err != nil {
		return fmt.Errorf("bind queue %q to exchange %q: %w", name, exchange, err)
	}
	return nil
}

func (t *Topology) declareQueues(ctx context.Context, l *link, name string) error {
	var server serverVersion
	if err := l.onChannel(ctx, func(conn *amqp.Connection, _ *amqp.Channel) error {
		server = versionOf(conn)
		return nil
	}); err != nil {
		return fmt.Errorf("declare queue %q: %w", name, err)
	}
	// The targets of dead letters first: no message may die before they are there.
	qs := t.queues(name, server)
	for _, q := range slices.Backward(qs) {
		err := l.onChannel(ctx, func(_ *amqp.Connection, ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(q.name, true, false, false, false, q.args)
			return err
		})
		if isCode(err, amqp.PreconditionFailed) {
			l.owner.differs(q.name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("declare queue %q: %w", q.name, err)
		}
	}
	return nil
}

// differs says, once for each queue, that it exists with other arguments:
// declaring never changes a queue.
func (c *Connection) differs(queue string, err error) {
	if _, said := c.differing.LoadOrStore(queue, true); said {
		return
	}
	c.config.Logger.Error("Queue exists with other arguments and is used as it is: set a policy for what it lacks, or use a queue of a new name; sekali inbox check --management URL tells whether it can lose messages", err, watermill.LogFields{"queue": queue})
}

// find looks for a queue without declaring it.
func (l *link) find(ctx context.Context, name string) error {
	err := l.onChannel(ctx, func(_ *amqp.Connection, ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	})
	if isCode(err, amqp.NotFound) {
		return fmt.Errorf("queue %q at %s: %w", name, l.owner.addr, ErrNoQueue)
	}
	if err != nil {
		return fmt.Errorf("look for queue %q: %w", name, err)
	}
	return nil
}

// FindQueue returns nil when the queue exists, an error that wraps ErrNoQueue
// when it does not. It changes nothing on the broker.
func (c *Connection) FindQueue(ctx context.Context, name string) error {
	return c.consume.find(ctx, name)
}

func isCode(err error, code int) bool {
	var ae *amqp.Error
	return errors.As(err, &ae) && ae.Code == code
}

type serverVersion struct{ major, minor int }

func versionOf(conn *amqp.Connection) serverVersion {
	text, _ := conn.Properties["version"].(string)
	return parseVersion(text)
}

func parseVersion(text string) (v serverVersion) {
	parts := strings.SplitN(text, ".", 3)
	v.major, _ = strconv.Atoi(parts[0])
	if len(parts) > 1 {
		v.minor, _ = strconv.Atoi(parts[1])
	}
	return v
}
