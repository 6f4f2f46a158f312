package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// session is one channel with one consumer on it: the life of delivery tags.
type session struct {
	ch         *amqp.Channel
	tag        string
	deliveries <-chan amqp.Delivery
	closed     <-chan *amqp.Error
	cancelled  <-chan string
	settler    *settler
	since      time.Time
	stopping   context.Context // of its messages: their waits end with the channel, or when the drain begins

	// Of the subscription's goroutine only.
	open int  // deliveries not settled
	over bool // no more deliveries will come
}

var consumerNumber atomic.Uint64

func (s *subscription) openSession(ctx context.Context) (*session, error) {
	prefetch := s.owner.config.Prefetch
	if s.careful.on {
		prefetch = 1
	}
	conn, err := s.owner.conn.consume.get(ctx)
	if err != nil {
		return nil, err
	}
	type result struct {
		ses *session
		err error
	}
	opened := make(chan result, 1)
	go func() {
		ses, err := s.consumeOn(conn, prefetch)
		opened <- result{ses, err}
	}()
	select {
	case r := <-opened:
		if r.err != nil {
			return nil, s.explain(r.err)
		}
		return r.ses, nil
	case <-ctx.Done():
		go func() {
			if r := <-opened; r.err == nil {
				r.ses.end()
			}
		}()
		return nil, s.explain(context.Cause(ctx))
	}
}

func (s *subscription) consumeOn(conn *amqp.Connection, prefetch int) (*session, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open channel: %w", err)
	}
	ses := &session{
		ch: ch, tag: fmt.Sprintf("%s-%d", s.owner.conn.config.Name, consumerNumber.Add(1)), since: time.Now(),
		closed: ch.NotifyClose(make(chan *amqp.Error, 1)), cancelled: ch.NotifyCancel(make(chan string, 1)),
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		_ = ch.Close()
		return nil, fmt.Errorf("set prefetch: %w", err)
	}
	ses.deliveries, err = ch.Consume(s.queue, ses.tag, false, false, false, false, s.owner.config.ConsumeArguments)
	if err != nil {
		_ = ch.Close()
		return nil, err
	}
	ses.stopping = whileOpen(s.stopping, ch)
	ses.settler = newSettler(ch, &s.owner.stats.late)
	return ses, nil
}

// why tells why the deliveries ended.
func (ses *session) why() error {
	select {
	case _, ok := <-ses.cancelled:
		if ok {
			return errCancelled
		}
	default:
	}
	select {
	case e := <-ses.closed:
		if e != nil {
			return e
		}
	default:
	}
	return amqp.ErrClosed
}

var errCancelled = errors.New("the broker cancelled the consumer: the queue was deleted or has moved")

// end writes what is left to settle, then closes the channel: the broker puts
// back whatever is unsettled. It may take long on a dead connection.
func (ses *session) end() {
	ses.settler.close()
	<-ses.settler.done
	_ = ses.ch.Close()
}

// explain names the queue and the likely fix.
func (s *subscription) explain(err error) error {
	if ae, ok := errors.AsType[*amqp.Error](err); ok {
		switch ae.Code {
		case amqp.NotFound:
			return fmt.Errorf("consume from queue %q: %w (%s)", s.queue, ErrNoQueue, ae.Reason)
		case amqp.AccessRefused:
			return fmt.Errorf("consume from queue %q: %w: another consumer has it exclusively, or the user may not read it", s.queue, err)
		case amqp.ResourceLocked:
			return fmt.Errorf("consume from queue %q: %w: it belongs to another connection", s.queue, err)
		}
	}
	return fmt.Errorf("consume from queue %q: %w", s.queue, err)
}
