package rabbit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/backoff"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// subscription is one Subscribe. All its state belongs to the goroutine of run;
// others talk to it over channels.
type subscription struct {
	owner *Subscriber
	topic string
	queue string
	log   watermill.LoggerAdapter
	out   chan *message.Message
	ctx   context.Context // of Subscribe: its end starts the drain
	base  context.Context // of messages: its values without its end

	stopping  context.Context // ends when the drain begins
	stop      func()
	done      chan *item // settled by its handler
	requeue   chan *item // its pause is over
	abandoned chan struct{}

	cur      *session
	sessions map[*session]struct{} // not ended yet
	ends     sync.WaitGroup        // of those that are ending
	lanes    lanes
	inFlight int // handed out and not settled
	pausing  map[*item]*time.Timer
	streak   int64 // nacks since the last ack
	careful  careful
	widening bool
	waits    *backoff.Backoff
}

func newSubscription(ctx context.Context, s *Subscriber, topic, queue string) *subscription {
	stopping, stop := context.WithCancel(context.Background())
	return &subscription{
		owner: s, topic: topic, queue: queue, ctx: ctx,
		log:  s.config.Logger.With(watermill.LogFields{"queue": queue}),
		base: inbox.WithConsumer(context.WithoutCancel(ctx), queue),
		out:  make(chan *message.Message), stopping: stopping, stop: stop,
		done: make(chan *item, s.config.Concurrency), requeue: make(chan *item), abandoned: make(chan struct{}),
		lanes: newLanes(s.config.OrderBy != nil), pausing: make(map[*item]*time.Timer),
		sessions: make(map[*session]struct{}), careful: careful{on: s.config.Prefetch > 1},
		waits: backoff.New(s.conn.config.ReconnectMin, s.conn.config.ReconnectMax),
	}
}

func (s *subscription) run(first *session) {
	defer s.owner.running.Done()
	s.use(first)
	opened := make(chan *session)
	openCtx, stopOpening := context.WithCancel(context.Background())
	defer stopOpening()
	for {
		var deliveries <-chan amqp.Delivery
		if s.cur != nil {
			deliveries = s.cur.deliveries
		}
		var out chan<- *message.Message
		var msg *message.Message
		var next *item
		if s.inFlight < s.owner.config.Concurrency {
			if next = s.next(); next != nil {
				out, msg = s.out, next.msg
			}
		}
		select {
		case d, ok := <-deliveries:
			switch {
			case !ok:
				s.lost()
				go s.reopen(openCtx, opened)
			case !s.take(d):
				stopOpening()
				s.drain(opened)
				return
			case s.careful.overWith(d, s.owner.config.Prefetch):
				s.widen(openCtx, opened)
			}
		case out <- msg:
			s.handedOut(next)
		case it := <-s.done:
			s.finished(it)
		case it := <-s.requeue:
			s.putBack(it)
		case ses := <-opened:
			s.use(ses)
			if s.widening {
				s.widening = false
				continue
			}
			s.owner.stats.reopened.Add(1)
			s.log.Info("Consuming again", nil)
		case <-s.ctx.Done():
			stopOpening()
			s.drain(opened)
			return
		case <-s.owner.closing:
			stopOpening()
			s.drain(opened)
			return
		}
	}
}

func (s *subscription) use(ses *session) {
	s.cur = ses
	s.sessions[ses] = struct{}{}
}

// take accepts a delivery; false ends the subscription. The client may still
// pass on a few when the channel has died: those are with the broker again.
func (s *subscription) take(d amqp.Delivery) bool {
	if s.cur.ch.IsClosed() {
		return true
	}
	if _, stream := d.Headers["x-stream-offset"]; stream {
		s.log.Error("Not consuming from a stream: what a handler fails on would never come back", errStream, nil)
		return false
	}
	s.cur.open++
	s.lanes.push(s.newItem(s.cur, d))
	return true
}

var errStream = errors.New("the queue is a stream; use a classic or quorum queue")

// next is the one to be handed out; deliveries of a dead channel are dropped,
// since the broker has them again.
func (s *subscription) next() *item {
	for !s.widening {
		it := s.lanes.peek()
		if it == nil || !it.ses.ch.IsClosed() {
			return it
		}
		s.dropWaiting(it.ses)
	}
	return nil
}

func (s *subscription) dropWaiting(ses *session) {
	for _, it := range s.lanes.drop(ses) {
		it.cancel()
		ses.open--
	}
	s.endIfOver(ses)
}

func (s *subscription) handedOut(it *item) {
	s.lanes.pop()
	s.inFlight++
	s.owner.stats.delivered.Add(1)
	go s.await(it)
}

func (s *subscription) finished(it *item) {
	if it.acked {
		s.streak = 0
		s.owner.stats.acked.Add(1)
		s.inFlight--
		s.lanes.free(it)
		s.settle(it, true)
		return
	}
	if it.ses.ch.IsClosed() { // the broker has it again, there is nothing to put off
		s.inFlight--
		s.lanes.free(it)
		s.settle(it, false)
		return
	}
	s.streak++
	s.owner.stats.requeued.Add(1)
	if s.owner.config.Prefetch > 1 {
		// The pause takes a place in the window of the broker, not one of those that
		// run.
		s.inFlight--
		s.lanes.free(it)
	}
	pause := s.pause(it)
	s.pausing[it] = time.AfterFunc(pause, func() {
		select {
		case s.requeue <- it:
		case <-s.abandoned:
		}
	})
}

// pause keeps nacks from becoming a loop: at most Prefetch of them in one
// RequeueMax in the long run.
func (s *subscription) pause(it *item) time.Duration {
	n := it.returns
	if n < 0 {
		n = 0
		if it.redelivered {
			n = s.streak
		}
	}
	return pause(n, s.owner.config.RequeueMin, s.owner.config.RequeueMax)
}

func (s *subscription) putBack(it *item) {
	if _, ok := s.pausing[it]; !ok {
		return
	}
	delete(s.pausing, it)
	if s.owner.config.Prefetch == 1 {
		s.inFlight--
		s.lanes.free(it)
	}
	s.settle(it, false)
}

// settle hands a delivery to the settler of the channel it came from.
func (s *subscription) settle(it *item, ack bool) {
	it.ses.settler.settle(it.tag, ack)
	it.ses.open--
	s.endIfOver(it.ses)
}

// lost is called when no more deliveries will come from the present channel.
// What is in this process may still be settled on it, when it lives: a consumer
// can be cancelled without its channel.
func (s *subscription) lost() {
	ses := s.cur
	s.cur = nil
	ses.over = true
	err := ses.why()
	s.log.Error("Consumer lost, opening it again", s.explain(err), nil)
	if ses.ch.IsClosed() {
		s.dropWaiting(ses)
	}
	if time.Since(ses.since) >= stable {
		s.waits.Reset()
	}
	s.endIfOver(ses)
}

func (s *subscription) endIfOver(ses *session) {
	if ses.over && ses.open == 0 {
		s.end(ses)
	}
}

// end closes a channel beside the run.
func (s *subscription) end(ses *session) {
	if _, ok := s.sessions[ses]; !ok {
		return
	}
	delete(s.sessions, ses)
	s.ends.Go(ses.end)
}

// reopen tries until there is a consumer again or ctx ends.
func (s *subscription) reopen(ctx context.Context, opened chan<- *session) {
	if backoff.Sleep(ctx, s.waits.Next()) == nil {
		s.open(ctx, opened)
	}
}

func (s *subscription) open(ctx context.Context, opened chan<- *session) {
	for {
		ses, err := s.tryOpen(ctx)
		if err != nil {
			if ctx.Err() == nil {
				s.log.Error("Cannot consume, trying again", err, nil)
			}
			if backoff.Sleep(ctx, s.waits.Next()) != nil {
				return
			}
			continue
		}
		select {
		case opened <- ses:
		case <-ctx.Done():
			ses.end()
		}
		return
	}
}

func (s *subscription) tryOpen(ctx context.Context) (*session, error) {
	// The wait for a connection is its own, and without limit.
	if _, err := s.owner.conn.consume.get(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.owner.config.StartTimeout)
	defer cancel()
	if t := s.owner.config.Topology; t != nil {
		if err := t.declare(ctx, s.owner.conn.consume, s.owner.config.Topics, s.topic, true); err != nil {
			return nil, err
		}
	}
	return s.openSession(ctx)
}
