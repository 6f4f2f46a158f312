package rabbit

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	amqp "github.com/rabbitmq/amqp091-go"
)

// drain ends a subscription: stop consuming, give back what was not begun, let
// handlers finish, write their acks, close the channel. The channel of messages
// is closed last: a Watermill router takes that as the sign to close the
// publishers of its handlers.
func (s *subscription) drain(opened <-chan *session) {
	deadline := time.NewTimer(s.owner.config.CloseTimeout)
	defer deadline.Stop()
	defer close(s.out)
	s.stop()

	var deliveries <-chan amqp.Delivery
	unanswered := time.NewTimer(closeTimeout)
	defer unanswered.Stop()
	if ses := s.cur; ses != nil {
		deliveries = ses.deliveries
		// Deliveries that are on their way come out before this is answered; then
		// their channel is closed.
		go func() { _ = ses.ch.Cancel(ses.tag, false) }()
	}
	s.giveBack()
	for it, timer := range s.pausing {
		timer.Stop()
		s.putBack(it)
	}
	for s.inFlight > 0 || deliveries != nil {
		select {
		case d, ok := <-deliveries:
			if !ok {
				deliveries = nil
				continue
			}
			_ = s.take(d)
			s.giveBack()
		case it := <-s.done:
			s.finished(it)
			if timer, ok := s.pausing[it]; ok {
				timer.Stop()
				s.putBack(it)
			}
		case ses := <-opened: // it came too late
			s.sessions[ses] = struct{}{}
		case <-unanswered.C:
			deliveries = nil
		case <-deadline.C:
			s.log.Error("Handlers have not finished in time, their messages go back to the queue", nil,
				watermill.LogFields{"handlers": s.inFlight, "timeout": s.owner.config.CloseTimeout.String()})
			deliveries, s.inFlight = nil, 0
		}
	}
	close(s.abandoned) // ends the contexts of what is still running
	for ses := range s.sessions {
		s.end(ses)
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	// A broker that does not answer is not waited for.
	_ = bounded(ctx, func() error { s.ends.Wait(); return nil })
}

// giveBack returns everything that was not handed out, so that others can have
// it while handlers here still run.
func (s *subscription) giveBack() {
	for _, it := range s.lanes.drop(nil) {
		it.cancel()
		s.owner.stats.returned.Add(1)
		s.settle(it, false)
	}
}
