package middleware

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/internal/settle"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// reasonPoisoned is the metadata in which Watermill's PoisonQueue leaves the
// error that it turned into success (ReasonForPoisonedKey of its package, which
// is not worth linking for a word).
const reasonPoisoned = "reason_poisoned"

// Config tells how messages become claims. The zero value works with our
// RabbitMQ subscriber, which names the consumer.
type Config struct {
	// Key is the rule that gives the idempotency key. Defaults to
	// inbox.DefaultKey: the event_id header, then the broker's message id.
	Key inbox.Key
	// Consumer is the name under which keys are remembered. One name per queue:
	// handlers that share a queue must share it. Defaults to the queue, where the
	// subscriber tells it (ours does); elsewhere it must be given.
	Consumer string
	// ConsumerIsHandler names the consumer after Watermill's handler instead. Only
	// right where every handler has a queue of its own: several handlers on one
	// queue would each process the same message. Defaults to false.
	ConsumerIsHandler bool
	// Queue is registered with Consumer, to keep other queues off the name.
	// Defaults to the queue where the subscriber tells it, else to the consumer's
	// name.
	Queue string
	// Mode of the consumer's first registration: inbox.Observe only counts what
	// inbox.Enforce would skip. Afterwards the mode in the consumer's row rules.
	// Defaults to inbox.Enforce.
	Mode inbox.Mode
	// Fingerprint identifies the content of a message: the same key with another
	// fingerprint is a Conflict. Defaults to the payload; a func that returns nil
	// switches the comparison off.
	Fingerprint func(msg *message.Message) []byte
	// ProcessUnclaimed runs the handler for messages without a key, in a
	// transaction but without a claim: once a delivery, not once a message.
	// Defaults to false: such a message becomes a letter.
	ProcessUnclaimed bool
	// PublishAfterCommit lets handlers return messages, which the router publishes
	// after the commit. A crash in between loses them. Defaults to false: such a
	// handler is held as a mistake of the set-up.
	PublishAfterCommit bool
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Key == nil {
		c.Key = inbox.DefaultKey
	}
	if err := inbox.CheckKey(c.Key); err != nil {
		errs = append(errs, fmt.Errorf("Key: %w", err))
	}
	if c.Fingerprint == nil {
		c.Fingerprint = func(msg *message.Message) []byte { return inbox.Fingerprint(msg.Payload) }
	}
	if c.Consumer != "" && c.ConsumerIsHandler {
		errs = append(errs, errors.New("Consumer and ConsumerIsHandler: give one of the two"))
	}
	if c.Queue != "" && c.Consumer == "" {
		errs = append(errs, errors.New("Queue without Consumer: name the consumer, too"))
	}
	return c, errors.Join(errs...)
}

// Idempotent is router middleware that runs each handler inside a claim. It
// commits before it returns, so an ack that follows is an ack after commit.
//
// It neither retries nor dead-letters: anything but Processed, Duplicate and
// Unclaimed is an error to whatever surrounds it. Most users want Stack, which
// has the surroundings in the one order that loses nothing.
type Idempotent struct {
	inbox  *inbox.Inbox
	config Config
}

// NewIdempotent checks the configuration; its errors name the fields.
func NewIdempotent(b *inbox.Inbox, c Config) (*Idempotent, error) {
	if b == nil {
		return nil, inbox.Configf("new idempotent middleware", "inbox is nil: open one first, for instance with pginbox.Open")
	}
	c, err := c.withDefaults()
	if err != nil {
		return nil, inbox.ConfigError("new idempotent middleware", err)
	}
	return &Idempotent{inbox: b, config: c}, nil
}

// Middleware wraps a handler. Add it inside of everything that retries or turns
// errors into nil (PoisonQueue): such a thing between it and the handler would
// commit the claim of a failed message.
//
// The handler gets a copy of the message: an Ack or Nack of its own goes
// nowhere, since only a commit may lead to an ack. Metadata that it sets is
// copied back after the commit.
func (i *Idempotent) Middleware(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		var r result
		i.run(msg.Context(), msg, h, &r)
		return r.produced, r.err
	}
}

// result is what one run of one message came to.
type result struct {
	claim    inbox.Claim // as far as it got: consumer, then key and fingerprint
	outcome  inbox.Outcome
	produced []*message.Message
	err      error
}

// run handles one message once. It fills r as it goes: what is known of the
// claim is there even when the handler panics.
func (i *Idempotent) run(ctx context.Context, msg *message.Message, h message.HandlerFunc, r *result) {
	if r.claim.Consumer, r.err = i.consumer(ctx); r.err != nil {
		return
	}
	call := &call{idempotent: i, msg: msg, handler: h}
	once := settle.Once{
		Inbox: i.inbox, Consumer: r.claim.Consumer, Key: i.config.Key, Message: view{msg},
		Fingerprint:      func() []byte { return i.config.Fingerprint(msg) },
		ProcessUnclaimed: i.config.ProcessUnclaimed,
	}
	r.outcome, r.err = once.Do(ctx, &r.claim, call.do)
	// A run before may have been undone, and its message be a duplicate by now.
	if r.err != nil || call.copy == nil || r.outcome == inbox.Duplicate {
		return
	}
	if was, ok := msg.Metadata[reasonPoisoned]; ok {
		call.copy.Metadata[reasonPoisoned] = was
	}
	msg.Metadata = call.copy.Metadata
	r.produced = call.produced
}

// consumer names the consumer of the message that ctx belongs to.
func (i *Idempotent) consumer(ctx context.Context) (string, error) {
	switch {
	case i.config.Consumer != "":
		return i.config.Consumer, nil
	case i.config.ConsumerIsHandler:
		return message.HandlerNameFromCtx(ctx), nil
	}
	if name, ok := inbox.ConsumerName(ctx); ok {
		return name, nil
	}
	return "", inbox.Configf("claim", "the subscriber of handler %q does not name its queue: set Config.Consumer, one name per queue (or choose ConsumerIsHandler)", message.HandlerNameFromCtx(ctx))
}

// call is one message on its way through one handler. The engine may call do
// more than once before a commit; the last call counts.
type call struct {
	idempotent *Idempotent
	msg        *message.Message
	handler    message.HandlerFunc
	copy       *message.Message
	produced   []*message.Message
}

func (c *call) do(ctx context.Context) error {
	c.copy = c.msg.Copy()
	c.copy.Payload = bytes.Clone(c.msg.Payload) // a second run must not see what the first one did to it
	c.copy.SetContext(ctx)
	// A redriven message may still carry the mark of an earlier poisoning.
	delete(c.copy.Metadata, reasonPoisoned)
	var err error
	c.produced, err = c.handler(c.copy)
	_, poisoned := c.copy.Metadata[reasonPoisoned]
	switch {
	case err != nil:
		c.copy, c.produced = nil, nil
		return err
	case poisoned:
		return inbox.Configf("handle", "a poison queue between the claim and the handler %q turned its error into success: remove it, the stack dead-letters outside of the claim", message.HandlerNameFromCtx(ctx))
	case len(c.produced) > 0 && !c.idempotent.config.PublishAfterCommit:
		return inbox.Configf("handle", "handler %q returned messages, which would be lost if the process died between commit and publish: write them in the transaction, or set PublishAfterCommit", message.HandlerNameFromCtx(ctx))
	}
	return nil
}
