package rabbit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/settle"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// HandleConfig configures Handle. Queue and Letters are required.
type HandleConfig struct {
	// Queue that the loop consumes from: a plain delivery does not tell.
	Queue string
	// Letters publishes dead letters and delayed retries, confirmed. It may use a
	// Connection of its own beside the loop's.
	Letters *Publisher
	// DeadLetterQueue names where letters go. That queue must exist; Handle looks
	// for it on the connection of Letters. Defaults to DeadLetterQueue.
	DeadLetterQueue func(queue string) string
	// Delayer puts failed messages back after a while. Defaults to nil: an error
	// that does not heal within InPlace makes a letter.
	Delayer *Delayer
	// Delays are the waits of the Delayer, one a failed attempt, the last one
	// repeated. Defaults to DefaultRetrySteps where there is a Delayer.
	Delays []time.Duration
	// Key is the rule that gives the idempotency key. Defaults to
	// inbox.DefaultKey: the event_id header, then the message-id.
	Key inbox.Key
	// Consumer is the name under which keys are remembered. Defaults to Queue.
	Consumer string
	// Fingerprint identifies the content of a message; nil bytes are not compared.
	// Defaults to the body.
	Fingerprint func(d amqp.Delivery) []byte
	// ProcessUnclaimed runs the handler for messages without a key, once a
	// delivery. Defaults to false: they become letters.
	ProcessUnclaimed bool
	// MaxAttempts of the handler over all deliveries of a message. Defaults to 10.
	MaxAttempts int
	// InPlace bounds the retries of one delivery while it is unsettled. Defaults to
	// 5 s.
	InPlace time.Duration
	// PublishTimeout bounds one publish of a letter or retry, which is repeated until
	// confirmed, and the look for the DLQ at the start. Defaults to 30 s.
	PublishTimeout time.Duration
	// Logger takes what an operator should know. Defaults to silent.
	Logger *slog.Logger
}

func (c HandleConfig) withDefaults() (HandleConfig, inbox.Policy, error) {
	var errs []error
	if c.Queue == "" {
		errs = append(errs, errors.New("Queue is empty: name the queue that the loop consumes from"))
	}
	if c.Letters == nil {
		errs = append(errs, errors.New("Letters is nil: without a place for letters messages would have to disappear"))
	}
	if len(c.Delays) > 0 && c.Delayer == nil {
		errs = append(errs, errors.New("Delays without a Delayer: nothing would wait for them"))
	}
	if len(c.Delays) == 0 && c.Delayer != nil {
		c.Delays = DefaultRetrySteps()
	}
	if c.DeadLetterQueue == nil {
		c.DeadLetterQueue = DeadLetterQueue
	}
	if c.Key == nil {
		c.Key = inbox.DefaultKey
	}
	if err := inbox.CheckKey(c.Key); err != nil {
		errs = append(errs, fmt.Errorf("Key: %w", err))
	}
	if c.Fingerprint == nil {
		c.Fingerprint = func(d amqp.Delivery) []byte { return inbox.Fingerprint(d.Body) }
	}
	if c.MaxAttempts < 0 {
		errs = append(errs, fmt.Errorf("MaxAttempts is %d: must not be negative", c.MaxAttempts))
	}
	errs = append(errs, notNegative("InPlace", c.InPlace), notNegative("PublishTimeout", c.PublishTimeout))
	c.Consumer = cmp.Or(c.Consumer, c.Queue)
	orDefault(&c.PublishTimeout, 30*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	p := inbox.DefaultPolicy()
	p.MaxAttempts, p.InPlace, p.Delays = cmp.Or(c.MaxAttempts, p.MaxAttempts), cmp.Or(c.InPlace, p.InPlace), c.Delays
	return c, p, errors.Join(errs...)
}

// Handle makes the deliveries of an existing consume loop idempotent: the
// returned func runs fn inside a claim of b, settles the delivery, and returns
// when that is done. It acks after the commit, tries again, or publishes a retry
// or a letter and acks when that is confirmed.
//
//	handle, err := rabbit.Handle(ctx, box, rabbit.HandleConfig{Queue: "orders", Letters: pub}, pay)
//	for d := range deliveries {
//		handle(d) // instead of: if pay(ctx, d) ... d.Ack(false) ... d.Nack(...)
//	}
//
// fn finds the transaction with inbox.Tx in its context and must not settle the
// delivery. The func is safe for concurrent use: call it on several goroutines to
// handle several messages at once, at most as many as the channel's prefetch.
//
// Handle looks for the DLQ and registers the consumer, hence ctx. It fails when
// the DLQ is missing, and when the name belongs to another queue or service. When
// ctx ends later, a running fn still finishes and
// commits; what waits (for the database, for a retry) and what comes after that
// stays unsettled, and goes back to the queue when the channel is closed. So end
// in this order: cancel the consumer (ch.Cancel), end ctx, wait for the calls to
// return, close the channel. Only you bound that wait. Whoever closes the channel
// while fn still runs has its delivery again; what fn commits after all is
// recognised then.
//
// What goes back at other times does so after a pause of up to 5 s, within the
// call. fn gets a copy of the body and the headers, which it may change. Waits
// end, too, when the channel is closed: the broker has the delivery again.
//
// Do not set amqp091-go's Config.Recovery on the loop's connection: it sends the
// tags of a dead channel on the new one, where they settle other messages.
func Handle(ctx context.Context, b *inbox.Inbox, c HandleConfig, fn func(ctx context.Context, d amqp.Delivery) error) (func(amqp.Delivery), error) {
	c, policy, err := c.withDefaults()
	if b == nil {
		err = errors.Join(err, errors.New("inbox is nil: open one first, for instance with pginbox.Open"))
	}
	if fn == nil {
		err = errors.Join(err, errors.New("handler is nil"))
	}
	if err != nil {
		return nil, inbox.ConfigError("rabbit.Handle", err)
	}
	if err := c.findLetters(ctx); err != nil {
		return nil, err
	}
	if err := b.Register(ctx, inbox.Consumer{Name: c.Consumer, Queue: c.Queue, KeyRule: c.Key.String()}); err != nil {
		return nil, err
	}
	h := &handler{ctx: inbox.WithConsumer(ctx, c.Consumer), inbox: b, config: c, fn: fn, queues: c.Letters.ToQueues(), settler: settle.New(policy, c.Logger), open: make(map[*amqp.Channel]context.Context)}
	return h.handle, nil
}

// findLetters looks for the DLQ, which every message that cannot be handled would
// wait for.
func (c HandleConfig) findLetters(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.PublishTimeout, fmt.Errorf("no answer within the PublishTimeout of %s", c.PublishTimeout))
	defer cancel()
	err := c.Letters.wire.conn.publish.find(ctx, c.DeadLetterQueue(c.Queue))
	switch {
	case errors.Is(err, ErrNoQueue):
		return inbox.Configf("rabbit.Handle", "letters need a queue to go to: create it, or name another one in DeadLetterQueue: %w", err)
	case err != nil:
		return fmt.Errorf("rabbit.Handle: %w", err)
	}
	return nil
}
