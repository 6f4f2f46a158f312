package rabbit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/letter"
)

// PublisherConfig configures a Publisher. The zero value works.
type PublisherConfig struct {
	// Topics maps topics to exchanges and routing keys. Defaults to Queues().
	Topics Topics
	// Topology declares exchanges (with Queues, queues) that are missing. Defaults
	// to nil: nothing is declared, exchanges are looked for.
	Topology *Topology
	// Marshaler makes the AMQP message. Defaults to DefaultMarshaler.
	Marshaler Marshaler
	// Window is how many messages may be written and not yet confirmed. Defaults
	// to 256.
	Window int
	// Timeout bounds the way of one message: once until it is written, once from
	// there to its confirm. Defaults to 30 s.
	Timeout time.Duration
	// MaxBody is the largest body in bytes. Defaults to the broker's own default:
	// 16 MiB since RabbitMQ 4.0, 128 MiB before.
	MaxBody int
	// AllowUnroutable takes it for success when no queue is bound: for events that
	// nobody may want. ToQueues is not affected. Defaults to false.
	AllowUnroutable bool
	// Logger. Defaults to silent.
	Logger watermill.LoggerAdapter
}

// Publisher publishes persistent, mandatory, confirmed messages, many in flight
// at once. A nil result means that the broker has the message in all queues it
// was routed to, written to disk as those queues promise. It is safe for
// concurrent use.
//
// Messages of one call arrive in their order in each queue, unless one fails or
// the connection breaks between them.
type Publisher struct {
	config PublisherConfig
	wire   *confirmer
	queues bool // topic is a queue name, see ToQueues
	view   bool // does not own wire
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher checks c. Nothing is dialled before the first publish. Close it
// before the connection.
func NewPublisher(conn *Connection, c PublisherConfig) (*Publisher, error) {
	var errs []error
	if conn == nil {
		errs = append(errs, errors.New("connection is nil: make one with NewConnection"))
	}
	topics, err := c.Topics.withDefaults()
	errs = append(errs, err)
	topology, err := c.Topology.withDefaults()
	errs = append(errs, err, notNegative("Timeout", c.Timeout))
	if c.Window < 0 || c.MaxBody < 0 {
		errs = append(errs, fmt.Errorf("Window is %d, MaxBody %d: must not be negative", c.Window, c.MaxBody))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("rabbit publisher: %w", err)
	}
	c.Topics, c.Topology = topics, topology
	orDefault(&c.Window, 256)
	orDefault(&c.Timeout, 30*time.Second)
	if c.Marshaler == nil {
		c.Marshaler = DefaultMarshaler{}
	}
	if c.Logger == nil {
		c.Logger = watermill.NopLogger{}
	}
	return &Publisher{config: c, wire: newConfirmer(conn, c)}, nil
}

// PublishError is the failure of one message.
type PublishError struct {
	// Topic it was published to.
	Topic string
	// MessageUUID of the Watermill message.
	MessageUUID string
	// Err wraps one of the sentinels of this package.
	Err error
}

// Error names topic and message before the cause. It holds no payload.
func (e *PublishError) Error() string {
	return fmt.Sprintf("publish message %q to %q: %s", e.MessageUUID, e.Topic, e.Err)
}

// Unwrap gives the cause.
func (e *PublishError) Unwrap() error { return e.Err }

// Publish returns nil when all messages are confirmed, else the joined errors
// (PublishError) of those that are not: the others were published. It is bounded
// by PublisherConfig.Timeout and does not end early when a message's context is
// cancelled: at shutdown a handler that has committed must still get its events
// out.
func (p *Publisher) Publish(topic string, msgs ...*message.Message) error {
	return errors.Join(p.PublishEach(context.Background(), topic, msgs...)...)
}

// PublishEach returns one result a message, in their order; nil is a confirm.
// When ctx ends, what is not written yet is ErrNotSent and what is not confirmed
// is ErrUnknown.
func (p *Publisher) PublishEach(ctx context.Context, topic string, msgs ...*message.Message) []error {
	errs := make([]error, len(msgs))
	out := make([]outgoing, len(msgs))
	for i, msg := range msgs {
		out[i], errs[i] = p.marshal(topic, msg)
	}
	declare := topic
	if p.queues {
		declare = ""
	}
	p.wire.each(ctx, declare, out, errs)
	for i, msg := range msgs {
		if p.queues && errors.Is(errs[i], ErrTooLarge) {
			errs[i] = p.lighten(ctx, out[i], errs[i])
		}
		if errs[i] != nil {
			errs[i] = &PublishError{Topic: topic, MessageUUID: msg.UUID, Err: errs[i]}
		}
	}
	return errs
}

func (p *Publisher) marshal(topic string, msg *message.Message) (outgoing, error) {
	if p.queues {
		return check("", topic, republish(msg))
	}
	publishing, err := p.config.Marshaler.Marshal(msg)
	if err != nil {
		return outgoing{}, fmt.Errorf("marshal: %w: %w", ErrNotSent, err)
	}
	out, err := check(p.config.Topics.Exchange(topic), p.config.Topics.RoutingKey(topic), publishing)
	out.optional = p.config.AllowUnroutable
	return out, err
}

// republish gives the message as it is put into a retry queue, a DLQ or back
// into its queue: from the delivery it came as, when there is one.
func republish(msg *message.Message) amqp.Publishing {
	d, ok := letter.FromContext(msg.Context())
	if !ok {
		return marshal(msg, true)
	}
	return again(d, msg.Metadata)
}

// ToQueues returns a publisher for retries, letters and redrives: its topic is a
// queue name, reached through the default exchange, and a message that came from
// our Subscriber is published as the delivery it came as: typed headers,
// properties and body from there, the headers of the broker left out, and the
// message's present "sekali-" metadata put on top. user-id and expiration are
// kept in headers of our own. A message from elsewhere is marshalled with all its
// metadata. Where that does not fit a frame, our texts are cut and then the
// largest headers of others left out, named in sekali-dropped.
//
// Give it the message that was received: one that merely carries its context
// would be published as the received one.
//
// It shares channel and window with p. Its Close does nothing.
func (p *Publisher) ToQueues() *Publisher {
	return &Publisher{config: p.config, wire: p.wire, queues: true, view: true}
}

// Shared returns the same publisher with a Close that does nothing. A Watermill
// router closes the publisher of each handler that ends, while other handlers
// may still need theirs: give each handler a shared one and close p at the end.
func (p *Publisher) Shared() *Publisher {
	return &Publisher{config: p.config, wire: p.wire, queues: p.queues, view: true}
}

// Close refuses new messages, waits for those on their way, bounded by
// PublisherConfig.Timeout, and closes the channel. The connection stays open.
func (p *Publisher) Close() error {
	if p.view {
		return nil
	}
	return p.wire.close()
}
