package rabbit

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/letter"
)

// suspectCount of returns makes a delivery suspicious: three readers may have
// died with it in hand.
const suspectCount = 3

// suspicious reports whether a delivery may be one that kills its reader.
// Classic queues do not count returns: there any redelivery is suspicious.
func suspicious(d amqp.Delivery) bool {
	if n, ok := letter.Int(d.Headers["x-delivery-count"]); ok {
		return n >= suspectCount
	}
	return d.Redelivered
}

// widen ends the careful start. A subscription begins with a prefetch of 1, so
// that suspicious deliveries, which the broker sends first, run alone: should
// one kill this process again, no other message pays for it with its delivery
// limit. The first delivery that is not suspicious ends that.
//
// A prefetch cannot be changed under a consumer. So another one is opened; the
// delivery in hand waits until the old one is cancelled, since settling it
// earlier would fetch one more, only to be returned.
func (s *subscription) widen(ctx context.Context, opened chan<- *session) {
	s.careful, s.widening = false, true
	ses := s.cur
	s.cur, ses.over = nil, true
	go func() {
		_ = ses.ch.Cancel(ses.tag, false)
		s.open(ctx, opened)
	}()
}
