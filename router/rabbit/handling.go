package rabbit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/backoff"
	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/internal/settle"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// handler is what Handle returns the method of.
type handler struct {
	ctx     context.Context // of Handle: its end is the shutdown
	inbox   *inbox.Inbox
	config  HandleConfig
	fn      func(ctx context.Context, d amqp.Delivery) error
	queues  *Publisher
	settler *settle.Settler
}

// handling is one delivery on its way.
type handling struct {
	*handler
	d       amqp.Delivery
	msg     *message.Message // for retries and letters
	attempt int              // of the run that is going on
	claim   inbox.Claim      // as far as it is known
}

func (h *handler) handle(d amqp.Delivery) {
	if d.Acknowledger == nil {
		return // what a closed channel of deliveries yields
	}
	msg, _ := DefaultMarshaler{}.Unmarshal(d)
	ctx := letter.WithDelivery(h.ctx, delivered(h.config.Queue, d))
	msg.SetContext(ctx)
	g := &handling{handler: h, d: d, msg: msg}
	attempts, first := letter.Before(msg.Metadata)
	what := settle.Delivery{Consumer: h.config.Consumer, Attempts: attempts, FirstFailure: first, Run: g.run}
	returned := false
	defer func() {
		if !returned && g.attempt > 0 { // the handler left its goroutine
			g.settle(g.carryOut(h.settler.Left(what, g.attempt)))
		}
	}()
	ack := g.carryOut(h.settler.Settle(ctx, what))
	returned = true
	g.settle(ack)
}

// settle answers on the channel that delivered.
func (g *handling) settle(ack bool) {
	var err error
	if ack {
		err = g.d.Ack(false)
	} else {
		err = g.d.Nack(false, true)
	}
	if err != nil {
		g.config.Logger.Info("delivery could not be settled, its channel is closed; the broker delivers it again", "consumer", g.config.Consumer, "queue", g.config.Queue, "err", err)
	}
}

func (g *handling) run(ctx context.Context, attempt int) (inbox.Outcome, error) {
	g.attempt = attempt
	g.claim = inbox.Claim{Consumer: g.config.Consumer}
	key, err := g.config.Key.Of(plain{g.d})
	do := func(ctx context.Context) error {
		// A shutdown does not cancel a handler that may commit; the engine's deadline
		// stays.
		deadline, _ := ctx.Deadline()
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
		defer cancel()
		return g.fn(ctx, g.d)
	}
	switch {
	case errors.Is(err, inbox.Skip):
		return inbox.Unclaimed, nil
	case err == nil:
		g.claim.Key, g.claim.Fingerprint = key, g.config.Fingerprint(g.d)
		return g.inbox.Do(ctx, g.claim, do)
	case errors.Is(err, inbox.ErrNoKey) && g.config.ProcessUnclaimed, g.inbox.Observes(g.config.Consumer):
		return g.inbox.DoUnclaimed(ctx, g.config.Consumer, do)
	}
	noKey := errors.Is(err, inbox.ErrNoKey)
	err = fmt.Errorf("key of message %q for consumer %q by rule %q: %w", g.d.MessageId, g.config.Consumer, g.config.Key, err)
	if noKey {
		err = inbox.Permanent(err)
	}
	return inbox.Failed, err
}

// carryOut does what was decided; true means ack.
func (g *handling) carryOut(v settle.Verdict) bool {
	log := g.config.Logger.With("consumer", g.claim.Consumer, "key", g.claim.Key, "attempt", v.Attempts)
	out := g.msg.CopyWithContext()
	facts := g.facts(v)
	switch v.Action {
	case inbox.Ack:
		return true
	case inbox.Delay:
		facts.Reason = nil
		facts.Write(out.Metadata)
		return g.persist(log, "delayed retry", func(ctx context.Context) error {
			wait, err := g.config.Delayer.Delay(ctx, out, v.Wait)
			if err == nil {
				log.Info("message will be tried again", "wait", wait, "err", v.Reason)
			}
			return err
		})
	case inbox.DeadLetter:
		facts.Write(out.Metadata)
		dlq := g.config.DeadLetterQueue(g.config.Queue)
		return g.persist(log, "letter", func(ctx context.Context) error {
			err := g.queues.PublishEach(ctx, dlq, out)[0]
			if err == nil {
				log.Error("message became a letter", "queue", dlq, "err", v.Reason)
			}
			return err
		})
	case inbox.Requeue, inbox.Retry, inbox.Hold:
	}
	return false
}

func (g *handling) facts(v settle.Verdict) letter.Facts {
	f := letter.Facts{
		Attempts: v.Attempts, FirstFailure: v.FirstFailure, Reason: v.Reason,
		Consumer: g.claim.Consumer, Fingerprint: g.claim.Fingerprint,
	}
	if d, ok := letter.FromContext(g.msg.Context()); ok {
		f.Queue, f.Exchange, f.RoutingKey = d.Origin()
	}
	if g.claim.Key != "" {
		f.Key = inbox.StoredKey(g.claim.Key)
	}
	var e *inbox.Error
	if errors.As(v.Reason, &e) {
		f.ClaimedAt = e.ClaimedAt
	}
	return f
}

// The waits between two tries to publish.
const (
	persistFirst = 200 * time.Millisecond
	persistLimit = 5 * time.Second
)

// persist repeats a publish until it is confirmed: running the handler again
// would not help. Only a shutdown gives the message back, after one try.
func (g *handling) persist(log *slog.Logger, what string, publish func(ctx context.Context) error) bool {
	waits := backoff.New(persistFirst, persistLimit)
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(g.ctx), g.config.PublishTimeout)
		err := publish(ctx)
		cancel()
		if err == nil {
			return true
		}
		log.Error(what+" could not be published, the message is kept", "try", try, "err", err)
		if backoff.Sleep(g.ctx, waits.Next()) != nil {
			return false
		}
	}
}

// plain shows a delivery to a key rule.
type plain struct{ d amqp.Delivery }

func (p plain) Header(name string) (any, bool) {
	v, ok := p.d.Headers[name]
	if dec, isDecimal := v.(amqp.Decimal); isDecimal {
		return letter.Decimal{Scale: dec.Scale, Value: dec.Value}.String(), true
	}
	return v, ok
}

// MessageID reads the property, then the headers in which RabbitMQ's JMS client
// and Watermill's AMQP packages carry theirs.
func (p plain) MessageID() string {
	if p.d.MessageId != "" {
		return p.d.MessageId
	}
	for _, name := range []string{"JMSMessageID", UUIDHeader} {
		if id, ok := p.d.Headers[name].(string); ok && id != "" {
			return id
		}
	}
	return ""
}

func (p plain) Body() []byte { return p.d.Body }
