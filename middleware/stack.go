package middleware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/internal/settle"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// StackConfig tells how a Stack treats messages that do not get through. The
// zero value works with our RabbitMQ subscriber.
type StackConfig struct {
	Config
	// DeadLetterTopic names where letters of a queue go. Defaults to the queue's
	// name with ".dlq" behind it.
	DeadLetterTopic func(queue string) string
	// Delayer puts failed messages back after a while. Defaults to none: an error
	// that does not heal within InPlace makes a letter.
	Delayer Delayer
	// Delays are the waits of the Delayer, one a failed attempt, the last one
	// repeated. Defaults to 5 s, 30 s, 2 min, 10 min, 1 h.
	Delays []time.Duration
	// MaxAttempts of a handler over all deliveries of a message. Waits (a database
	// that undid the transaction or is away, a claim held elsewhere, a shutdown)
	// do not count. Defaults to 10.
	MaxAttempts int
	// InPlace bounds the retries of one delivery while it is unsettled and others
	// wait behind it. Defaults to 5 s.
	InPlace time.Duration
	// PublishTimeout bounds one publish of a letter or a delayed retry. Defaults to
	// 30 s.
	PublishTimeout time.Duration
	// Logger takes what an operator should know. Defaults to nil: silent.
	Logger *slog.Logger
}

func (c StackConfig) withDefaults() (StackConfig, error) {
	var errs []error
	if c.DeadLetterTopic == nil {
		c.DeadLetterTopic = func(queue string) string { return queue + ".dlq" }
	}
	if c.Delayer == nil && len(c.Delays) > 0 {
		errs = append(errs, errors.New("Delays without a Delayer: nothing would wait for them"))
	}
	if c.Delayer != nil && len(c.Delays) == 0 {
		c.Delays = inbox.DefaultDelays()
	}
	for i, d := range c.Delays {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("Delays[%d] is %s: must be positive", i, d))
		}
	}
	def := inbox.DefaultPolicy()
	if c.MaxAttempts < 0 {
		errs = append(errs, fmt.Errorf("MaxAttempts is %d: must not be negative", c.MaxAttempts))
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = def.MaxAttempts
	}
	if c.InPlace < 0 || c.PublishTimeout < 0 {
		errs = append(errs, errors.New("InPlace and PublishTimeout must not be negative"))
	}
	if c.InPlace == 0 {
		c.InPlace = def.InPlace
	}
	if c.PublishTimeout == 0 {
		c.PublishTimeout = 30 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(errs...)
}

// Stack is all that a message passes on its way to a handler, in the one order
// that loses nothing:
//
//	dead-letter -> delayed retry -> retry -> recover -> claim -> handler
//
// It settles every message itself: acked after the commit, put on a delayed
// retry, or made a letter, the last two confirmed before the ack; what can only
// go back is nacked without an error in the router's log. Add no retry, poison
// queue or recoverer of your own inside of it; outside of it they see no error.
type Stack struct {
	idempotent *Idempotent
	letters    Confirmed
	config     StackConfig
	settler    *settle.Settler
}

// NewStack checks the configuration; its errors name the fields. letters takes
// what is given up: without such a place messages would have to disappear.
func NewStack(b *inbox.Inbox, letters Confirmed, c StackConfig) (*Stack, error) {
	var errs []error
	if letters == nil {
		errs = append(errs, errors.New("letters is nil: give the publisher that dead letters go through (Trust adapts one that does not report confirms)"))
	}
	c, err := c.withDefaults()
	errs = append(errs, err)
	i, err := NewIdempotent(b, c.Config)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, inbox.ConfigError("new stack", err)
	}
	policy := inbox.DefaultPolicy()
	policy.MaxAttempts, policy.InPlace, policy.Delays = c.MaxAttempts, c.InPlace, c.Delays
	return &Stack{idempotent: i, letters: letters, config: c, settler: settle.New(policy, c.Logger)}, nil
}

// Middleware wraps a handler.
func (s *Stack) Middleware(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) (produced []*message.Message, err error) {
		waiting, cancel := letter.UntilStopping(msg.Context())
		defer cancel()
		d := &delivery{stack: s, msg: msg, handler: h, waiting: waiting}
		returned := false
		defer func() {
			if returned || d.attempt == 0 {
				return
			}
			// The handler left its goroutine and takes the router's with it: nobody
			// else will settle the message. A panic cannot get here.
			if d.left() {
				msg.Ack()
			} else {
				msg.Nack()
			}
		}()
		ack := d.settle()
		returned = true
		if !ack {
			// Nacked here, so that the router does not log what is no fault; its own
			// ack afterwards does nothing.
			msg.Nack()
			return nil, nil
		}
		return d.last.produced, nil
	}
}

// delivery is one message on its way through the stack.
type delivery struct {
	stack   *Stack
	msg     *message.Message
	handler message.HandlerFunc
	waiting context.Context //nolint:containedctx // ends at a shutdown, before the message's own
	attempt int             // of the run that is going on
	last    result
}

// settle tells whether the message is to be acked.
func (d *delivery) settle() bool {
	return d.carryOut(d.stack.settler.Settle(d.waiting, d.describe()))
}

// left settles a message whose handler left its goroutine.
func (d *delivery) left() bool {
	return d.carryOut(d.stack.settler.Left(d.describe(), d.attempt))
}

func (d *delivery) describe() settle.Delivery {
	consumer, err := d.stack.idempotent.consumer(d.msg.Context())
	if err != nil {
		// Each run says so again; the handler is what they have in common.
		consumer = message.HandlerNameFromCtx(d.msg.Context())
	}
	return settle.Delivery{Consumer: consumer, Before: letter.Before(d.msg.Metadata), Key: func() string { return d.last.claim.Key }, Run: d.run}
}

func (d *delivery) run(ctx context.Context, attempt int) (inbox.Outcome, error) {
	d.attempt = attempt
	d.last = result{}
	d.stack.idempotent.run(ctx, d.msg, d.handler, &d.last)
	return d.last.outcome, d.last.err
}
