package rabbit

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

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
	once := settle.Once{
		Inbox: g.inbox, Consumer: g.config.Consumer, Key: g.config.Key, Message: plain{g.d},
		Fingerprint:      func() []byte { return g.config.Fingerprint(g.d) },
		ProcessUnclaimed: g.config.ProcessUnclaimed,
	}
	return once.Do(ctx, &g.claim, func(ctx context.Context) error { return g.fn(ctx, g.d) })
}

// carryOut does what was decided; true means ack.
func (g *handling) carryOut(v settle.Verdict) bool {
	var origin letter.Facts
	if d, ok := letter.FromContext(g.msg.Context()); ok {
		origin.Queue, origin.Exchange, origin.RoutingKey = d.Origin()
	}
	with := func(f letter.Facts) *message.Message {
		out := g.msg.CopyWithContext()
		f.Write(out.Metadata)
		return out
	}
	return v.CarryOut(g.msg.Context(), g.ctx, g.claim, origin, settle.Exits{
		Delay: func(ctx context.Context, f letter.Facts, wait time.Duration) (time.Duration, error) {
			return g.config.Delayer.Delay(ctx, with(f), wait)
		},
		Letter: func(ctx context.Context, f letter.Facts) error {
			return g.queues.PublishEach(ctx, g.config.DeadLetterQueue(g.config.Queue), with(f))[0]
		},
		Timeout: g.config.PublishTimeout,
		Log:     g.config.Logger.With("consumer", g.claim.Consumer, "key", g.claim.Key, "attempt", v.Attempts),
	})
}

// plain shows a delivery to a key rule: headers, and properties under the names
// that they have in Watermill's metadata, so that a rule means the same here as
// there.
type plain struct{ d amqp.Delivery }

func (p plain) Header(name string) (any, bool) {
	if property(name) {
		for property, value := range received(p.d) {
			if property == name {
				return value, true
			}
		}
	}
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
