package rabbit

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/letter"
)

// item is one delivery in this process.
type item struct {
	ses    *session
	tag    uint64
	msg    *message.Message
	cancel context.CancelFunc
	lane   string
	acked  bool
	// returns is how often the broker says it was returned; -1 unknown.
	returns     int64
	redelivered bool
}

func (s *subscription) newItem(ses *session, d amqp.Delivery) *item {
	msg, err := s.read(d)
	if err != nil {
		s.log.Error("Marshaler cannot read a message; it is handed out as DefaultMarshaler reads it", err, nil)
		msg, _ = DefaultMarshaler{}.Unmarshal(d)
	}
	del := delivered(s.queue, d)
	ctx, cancel := letter.WithStopping(letter.WithDelivery(s.base, del), ses.stopping)
	msg.SetContext(ctx)
	it := &item{ses: ses, tag: d.DeliveryTag, msg: msg, cancel: cancel, returns: -1, redelivered: d.Redelivered}
	if n, ok := returns(d); ok {
		it.returns = n
	}
	if s.owner.config.OrderBy != nil {
		it.lane = s.laneOf(msg)
	}
	return it
}

// read keeps a message that somebody's marshaler cannot bear from ending the
// process, for ever.
func (s *subscription) read(d amqp.Delivery) (msg *message.Message, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	msg, err = s.owner.config.Marshaler.Unmarshal(d)
	if err == nil && msg == nil {
		err = errors.New("it returned no message")
	}
	return msg, err
}

// laneOf does the same for OrderBy: the message goes into the lane of those
// without a name.
func (s *subscription) laneOf(msg *message.Message) (lane string) {
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("OrderBy panicked; the message goes into the nameless lane", fmt.Errorf("panic: %v", r), nil)
		}
	}()
	return s.owner.config.OrderBy(msg)
}

// await waits until the handler has settled the message, then tells the
// subscription; it ends without that when the subscription gave the message up.
func (s *subscription) await(it *item) {
	select {
	case <-it.msg.Acked():
		it.acked = true
	case <-it.msg.Nacked():
	case <-s.abandoned:
		it.cancel()
		return
	}
	it.cancel()
	select {
	case s.done <- it:
	case <-s.abandoned:
	}
}
