package rabbit

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/letter"
)

// suspectCount of returns makes a delivery suspicious: three readers may have
// died with it in hand.
const suspectCount = 3

// carefulFor bounds the careful start, which would last as long as a queue is
// full of suspicious deliveries.
const carefulFor = 30 * time.Second

// returns is how often the broker says that a delivery was returned before.
// False where it does not say: on the first delivery, and always on classic
// queues. A producer can set the header itself; a delivery that was never
// returned has it from there.
func returns(d amqp.Delivery) (n int64, ok bool) {
	if !d.Redelivered {
		return 0, false
	}
	return letter.Int(d.Headers["x-delivery-count"])
}

// suspicious reports whether a delivery may be one that kills its reader.
// Classic queues do not count returns: there any redelivery is suspicious.
func suspicious(d amqp.Delivery) bool {
	if n, ok := returns(d); ok {
		return n >= suspectCount
	}
	return d.Redelivered
}

// careful is the state of a careful start.
type careful struct {
	on    bool
	seen  int       // suspicious deliveries
	since time.Time // the first of them
}

// overWith reports whether a delivery ends the careful start: it is not
// suspicious, or there were as many of those as one dead reader leaves, or they
// have taken long.
func (c *careful) overWith(d amqp.Delivery, prefetch int) bool {
	if !c.on || !suspicious(d) {
		return c.on
	}
	if c.seen++; c.seen == 1 {
		c.since = time.Now()
	}
	return c.seen > prefetch || time.Since(c.since) > carefulFor
}

// widen ends the careful start. A subscription begins with a prefetch of 1, so
// that suspicious deliveries, which the broker sends first, run alone: should
// one kill this process again, no other message pays for it with its delivery
// limit. The first delivery that is not suspicious ends that, see overWith.
//
// A prefetch cannot be changed under a consumer. So another one is opened; the
// delivery in hand waits until the old one is cancelled, since settling it
// earlier would fetch one more, only to be returned.
func (s *subscription) widen(ctx context.Context, opened chan<- *session) {
	s.careful.on, s.widening = false, true
	ses := s.cur
	s.cur, ses.over = nil, true
	go func() {
		_ = ses.ch.Cancel(ses.tag, false)
		s.open(ctx, opened)
	}()
}
