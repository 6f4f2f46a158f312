package rabbit

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
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
	streak  atomic.Int64 // returns since the last ack
	left    sync.Once    // told that deliveries are left unsettled

	mu   sync.Mutex
	open map[*amqp.Channel]context.Context // see whileOpen
}

// handling is one delivery on its way.
type handling struct {
	*handler
	d           amqp.Delivery
	waiting     context.Context // ends at the shutdown, and when the channel dies
	msg         *message.Message
	fingerprint func() []byte // of the content as it came
	attempt     int           // of the run that is going on
	claim       inbox.Claim   // as far as it is known
}

func (h *handler) handle(d amqp.Delivery) {
	if d.Acknowledger == nil {
		return // what a closed channel of deliveries yields
	}
	g := &handling{handler: h, d: d, waiting: h.whileOpen(d)}
	g.fingerprint = sync.OnceValue(func() []byte { return h.config.Fingerprint(d) })
	returned := false
	defer func() {
		if !returned && g.attempt > 0 { // the handler left its goroutine
			g.settle(g.decided(func(of settle.Delivery) settle.Verdict { return h.settler.Left(of, g.attempt) }))
		}
	}()
	ack := g.decided(func(of settle.Delivery) settle.Verdict { return h.settler.Settle(g.msg.Context(), of) })
	returned = true
	g.settle(ack)
}

// whileOpen returns the context of waits with d in hand.
func (h *handler) whileOpen(d amqp.Delivery) context.Context {
	ch, ok := d.Acknowledger.(*amqp.Channel)
	if !ok || h.ctx.Err() != nil {
		return h.ctx
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx := h.open[ch]
	if ctx == nil {
		ctx = whileOpen(h.ctx, ch)
		h.open[ch] = ctx //nolint:fatcontext // one a channel, until it is closed
		context.AfterFunc(ctx, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			delete(h.open, ch)
		})
	}
	return ctx
}

// decided carries out a verdict and tells whether to ack. A panic outside of the
// handler, in a func of the configuration say, must not take the process down:
// the delivery goes back.
func (g *handling) decided(verdict func(of settle.Delivery) settle.Verdict) (ack bool) {
	defer func() {
		if v := recover(); v != nil { // nil when the handler leaves its goroutine, which goes on
			g.config.Logger.Error("panic while a delivery was being settled, it goes back", "consumer", g.config.Consumer, "queue", g.config.Queue,
				"panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			ack = false
		}
	}()
	if g.msg == nil {
		msg, _ := DefaultMarshaler{}.Unmarshal(g.d)
		msg.SetContext(letter.WithDelivery(g.waiting, delivered(g.config.Queue, g.d)))
		g.msg = msg
	}
	return g.carryOut(verdict(settle.Delivery{Consumer: g.config.Consumer, Before: letter.Before(g.msg.Metadata), Key: func() string { return g.claim.Key }, Run: g.run}))
}

// settle answers on the channel that delivered. After the shutdown nothing is
// put back: a loop that still receives would get it again at once, until the
// queue's delivery limit makes a letter of it or drops it.
func (g *handling) settle(ack bool) {
	var err error
	switch {
	case ack:
		g.streak.Store(0)
		err = g.d.Ack(false)
	case backoff.Sleep(g.waiting, g.pause()) == nil:
		err = g.d.Nack(false, true)
	case g.ctx.Err() == nil:
		err = amqp.ErrClosed
	default:
		g.left.Do(func() {
			g.config.Logger.Info("shutting down: deliveries stay unsettled from now on; they go back to the queue when their channel is closed", "consumer", g.config.Consumer, "queue", g.config.Queue)
		})
	}
	if err != nil {
		g.config.Logger.Info("delivery could not be settled, its channel is closed; the broker delivers it again", "consumer", g.config.Consumer, "queue", g.config.Queue, "err", err)
	}
}

// pause before the delivery goes back.
func (g *handling) pause() time.Duration {
	n, counted := returns(g.d)
	streak := g.streak.Add(1)
	if !counted && g.d.Redelivered {
		n = streak
	}
	return pause(n, requeueFirst, requeueLimit)
}

func (g *handling) run(ctx context.Context, attempt int) (inbox.Outcome, error) {
	g.attempt = attempt
	once := settle.Once{
		Inbox: g.inbox, Consumer: g.config.Consumer, Key: g.config.Key, Message: plain{g.d},
		Fingerprint:      g.fingerprint,
		ProcessUnclaimed: g.config.ProcessUnclaimed,
	}
	return once.Do(ctx, &g.claim, func(ctx context.Context) error {
		// Its own copy: the next run, the retry and the letter need what came.
		d := g.d
		d.Body = bytes.Clone(d.Body)
		d.Headers, _ = deepClone(d.Headers).(amqp.Table)
		return g.fn(ctx, d)
	})
}

// carryOut does what was decided; true means ack.
func (g *handling) carryOut(v settle.Verdict) bool {
	if v.Action == inbox.Ack {
		return true // before anything is made for the rest
	}
	var origin letter.Facts
	if d, ok := letter.FromContext(g.msg.Context()); ok {
		origin.Queue, origin.Exchange, origin.RoutingKey = d.Origin()
	}
	with := func(f letter.Facts) *message.Message {
		out := g.msg.CopyWithContext()
		f.Write(out.Metadata)
		return out
	}
	return v.CarryOut(g.msg.Context(), g.waiting, g.claim, origin, settle.Exits{
		Delay: func(ctx context.Context, f letter.Facts, wait time.Duration) (time.Duration, error) {
			return g.config.Delayer.Delay(ctx, with(f), wait)
		},
		Letter: func(ctx context.Context, f letter.Facts) error {
			return g.queues.PublishEach(ctx, g.config.DeadLetterQueue(g.config.Queue), with(f))[0]
		},
		Timeout: g.config.PublishTimeout,
		Log:     g.config.Logger.With("consumer", g.claim.Consumer, "key", g.claim.Key),
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
