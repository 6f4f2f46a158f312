package rabbit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
)

// SubscriberConfig configures a Subscriber. The zero value works.
type SubscriberConfig struct {
	// Topics maps topics to queues. Defaults to Queues().
	Topics Topics
	// Topology declares queues and bindings that are missing, also when a queue is
	// deleted later. Defaults to nil: nothing is declared, a missing queue is an
	// error.
	Topology *Topology
	// Marshaler reads the AMQP message. When it fails, DefaultMarshaler, which
	// never does, takes its place for that message, so that the handler and its
	// dead-letter rules see it. Defaults to DefaultMarshaler.
	Marshaler Marshaler
	// Concurrency is how many messages of one subscription are handed out and not
	// settled. With more than one, messages overtake each other. It should not
	// exceed the database's connections. Defaults to 1.
	Concurrency int
	// Prefetch is how many unsettled deliveries the broker sends. It must not be
	// smaller than Concurrency. Defaults to 1 with Concurrency 1, which keeps the
	// queue's order even when a message is put back, else to Concurrency and a
	// quarter more.
	Prefetch int
	// OrderBy names the lane of a message: messages of one lane are handed out one
	// after the other, in the queue's order. A nacked message goes back to the
	// queue and may be overtaken in its lane. Several instances on one queue have
	// lanes of their own. Prefetch should be a multiple of Concurrency. Defaults to
	// nil: no lanes.
	OrderBy func(msg *message.Message) string
	// CloseTimeout is how long running handlers may take at the end before their
	// messages are put back under them. Defaults to 25 s.
	CloseTimeout time.Duration
	// StartTimeout bounds Subscribe: connecting, declaring, registering. Defaults
	// to 30 s.
	StartTimeout time.Duration
	// RequeueMin and RequeueMax bound the pause before a nacked delivery is put
	// back: exponential in the number of its returns, with jitter. Where the
	// broker does not count returns (classic queues), nacks without an ack between
	// them count. Default to 100 ms and 5 s.
	RequeueMin, RequeueMax time.Duration
	// Register is called before the first consume from each queue; its error is
	// the error of Subscribe. Defaults to nil.
	Register func(ctx context.Context, queue string) error
	// ConsumeArguments go with the consume, like x-priority. Defaults to none.
	ConsumeArguments amqp.Table
	// Logger. Defaults to silent.
	Logger watermill.LoggerAdapter
}

// Subscriber hands out the deliveries of queues as Watermill messages. It is
// safe for concurrent use.
//
// Delivery is at least once. A delivery is settled once, on the channel that
// brought it; when that channel has died, settling does nothing (Stats.Late)
// and the broker delivers the message again.
//
// Each message's context names the queue (inbox.ConsumerName) and holds the
// delivery with all its typed headers. It keeps the values of Subscribe's
// context, not its cancellation: it ends when the message is settled, or when a
// drain has run out of time.
type Subscriber struct {
	conn   *Connection
	config SubscriberConfig
	stats  stats

	mu         sync.Mutex
	closed     bool
	closing    chan struct{}
	running    sync.WaitGroup
	registered map[string]*sync.Mutex // locked while its queue is being registered
	known      map[string]bool
}

var (
	_ message.Subscriber           = (*Subscriber)(nil)
	_ message.SubscribeInitializer = (*Subscriber)(nil)
)

// NewSubscriber checks c. Nothing is dialled before the first Subscribe. Close
// it before the connection.
func NewSubscriber(conn *Connection, c SubscriberConfig) (*Subscriber, error) {
	var errs []error
	if conn == nil {
		errs = append(errs, errors.New("connection is nil: make one with NewConnection"))
	}
	topics, err := c.Topics.withDefaults()
	errs = append(errs, err)
	topology, err := c.Topology.withDefaults()
	errs = append(errs, err,
		notNegative("CloseTimeout", c.CloseTimeout), notNegative("StartTimeout", c.StartTimeout),
		notNegative("RequeueMin", c.RequeueMin), notNegative("RequeueMax", c.RequeueMax))
	if c.Concurrency < 0 || c.Prefetch < 0 {
		errs = append(errs, fmt.Errorf("Concurrency is %d, Prefetch %d: must not be negative", c.Concurrency, c.Prefetch))
	}
	c.Topics, c.Topology = topics, topology
	orDefault(&c.Concurrency, 1)
	if c.Prefetch == 0 && c.Concurrency > 1 {
		c.Prefetch = c.Concurrency + (c.Concurrency+3)/4
	}
	orDefault(&c.Prefetch, 1)
	if c.Prefetch < c.Concurrency || c.Prefetch > math.MaxUint16 {
		errs = append(errs, fmt.Errorf("Prefetch is %d: must be between Concurrency (%d) and 65535", c.Prefetch, c.Concurrency))
	}
	orDefault(&c.CloseTimeout, 25*time.Second)
	orDefault(&c.StartTimeout, 30*time.Second)
	orDefault(&c.RequeueMin, 100*time.Millisecond)
	orDefault(&c.RequeueMax, max(5*time.Second, c.RequeueMin))
	if c.RequeueMin > c.RequeueMax {
		errs = append(errs, fmt.Errorf("RequeueMin %s is longer than RequeueMax %s", c.RequeueMin, c.RequeueMax))
	}
	if err := c.ConsumeArguments.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("ConsumeArguments: %w", err))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("rabbit subscriber: %w", err)
	}
	if c.Marshaler == nil {
		c.Marshaler = DefaultMarshaler{}
	}
	if c.Logger == nil {
		c.Logger = watermill.NopLogger{}
	}
	return &Subscriber{
		conn: conn, config: c, closing: make(chan struct{}),
		registered: make(map[string]*sync.Mutex), known: make(map[string]bool),
	}, nil
}

// Subscribe consumes from the queue of topic until ctx is cancelled or the
// Subscriber is closed. Both start a drain: no more messages are handed out,
// running handlers may finish within CloseTimeout, untouched deliveries go back
// at once, then the returned channel is closed.
//
// It returns when the broker has accepted the consumer. After that, whatever
// breaks is repaired with backoff, without limit, and logged.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	queue := s.config.Topics.Queue(topic)
	start, cancel := context.WithTimeout(ctx, s.config.StartTimeout)
	defer cancel()
	if err := s.prepare(start, topic, queue); err != nil {
		return nil, fmt.Errorf("subscribe to %q: %w", topic, err)
	}
	if err := s.register(start, queue); err != nil {
		return nil, fmt.Errorf("subscribe to %q: register queue %q: %w", topic, queue, err)
	}
	sub := newSubscription(ctx, s, topic, queue)
	ses, err := sub.openSession(start)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %q: %w", topic, err)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		ses.end()
		return nil, fmt.Errorf("subscribe to %q: subscriber: %w", topic, ErrClosed)
	}
	s.running.Add(1)
	s.mu.Unlock()
	go sub.run(ses) //nolint:gosec // it outlives ctx by the drain
	return sub.out, nil
}

// SubscribeInitialize makes sure that the queue of topic exists: it declares it
// where there is a Topology and looks for it otherwise.
func (s *Subscriber) SubscribeInitialize(topic string) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.StartTimeout)
	defer cancel()
	if err := s.prepare(ctx, topic, s.config.Topics.Queue(topic)); err != nil {
		return fmt.Errorf("initialize %q: %w", topic, err)
	}
	return nil
}

func (s *Subscriber) prepare(ctx context.Context, topic, queue string) error {
	if queue == "" || len(queue) > maxShort {
		return fmt.Errorf("queue name %.40q has %d bytes: must be 1 to %d", queue, len(queue), maxShort)
	}
	select {
	case <-s.closing:
		return fmt.Errorf("subscriber: %w", ErrClosed)
	default:
	}
	if s.config.Topology != nil {
		return s.config.Topology.declare(ctx, s.conn.consume, s.config.Topics, topic, true)
	}
	return s.conn.consume.find(ctx, queue)
}

// register calls the hook once a queue; a failed call is tried again by the next
// Subscribe.
func (s *Subscriber) register(ctx context.Context, queue string) error {
	if s.config.Register == nil {
		return nil
	}
	s.mu.Lock()
	lock := s.registered[queue]
	if lock == nil {
		lock = new(sync.Mutex)
		s.registered[queue] = lock
	}
	s.mu.Unlock()
	lock.Lock()
	defer lock.Unlock()
	s.mu.Lock()
	known := s.known[queue]
	s.mu.Unlock()
	if known {
		return nil
	}
	if err := s.config.Register(ctx, queue); err != nil {
		return err
	}
	s.mu.Lock()
	s.known[queue] = true
	s.mu.Unlock()
	return nil
}

// Close drains all subscriptions and returns when they have ended, at the latest
// a few seconds after CloseTimeout. Handlers that are still running then have
// lost their deliveries, which are with the broker again; that is logged, not
// returned. The connection stays open.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.running.Wait()
	return nil
}
