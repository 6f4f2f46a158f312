package middleware

import (
	"cmp"
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/internal/settle"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// carryOut does what was decided; true means that the message is to be acked.
func (d *delivery) carryOut(v settle.Verdict) bool {
	if v.Action == inbox.Ack {
		return true // before anything is made for the rest
	}
	ctx, c := d.msg.Context(), d.stack.config
	claim := d.last.claim
	return v.CarryOut(ctx, d.waiting, claim, d.origin(), settle.Exits{
		Delay: func(ctx context.Context, f letter.Facts, wait time.Duration) (time.Duration, error) {
			return c.Delayer.Delay(ctx, d.with(ctx, f), wait)
		},
		Letter: func(ctx context.Context, f letter.Facts) error {
			return d.stack.letters.PublishEach(ctx, c.DeadLetterTopic(d.queue()), d.with(ctx, f))[0]
		},
		Timeout: c.PublishTimeout,
		Log:     c.Logger.With("consumer", claim.Consumer, "key", claim.Key),
	})
}

// with is the message as it came, with the facts on top.
func (d *delivery) with(ctx context.Context, f letter.Facts) *message.Message {
	m := d.msg.Copy()
	m.SetContext(ctx)
	f.Write(m.Metadata)
	return m
}

// origin tells where the message was first published and consumed.
func (d *delivery) origin() (f letter.Facts) {
	f.Queue = d.queue()
	if l, ok := letter.FromContext(d.msg.Context()); ok {
		f.Queue, f.Exchange, f.RoutingKey = l.Origin()
	}
	return f
}

// queue names the queue that the message came from, for the name of its DLQ.
func (d *delivery) queue() string {
	ctx := d.msg.Context()
	if l, ok := letter.FromContext(ctx); ok && l.Queue != "" {
		return l.Queue
	}
	return cmp.Or(d.stack.idempotent.config.Queue, message.SubscribeTopicFromCtx(ctx))
}
