package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/router/rabbit"
)

const (
	queue     = "soak"
	name      = "soak" // of the connections
	producers = 2
	workers   = 32
	batch     = 100
	// backlog bounds the queue where the broker takes messages faster than it
	// gives them.
	backlog = 20_000
)

// traffic publishes and consumes until it is ended.
type traffic struct {
	books   *books
	conn    *rabbit.Connection
	sub     *rabbit.Subscriber
	pub     *rabbit.Publisher
	publish *gate // held: no new batch
	consume *gate // held: handlers keep their messages

	stop      chan struct{} // ends the producers
	producing sync.WaitGroup
	working   sync.WaitGroup
}

func startTraffic(ctx context.Context, url string, b *books) (*traffic, error) {
	conn, err := rabbit.NewConnection(url, rabbit.ConnectionConfig{Name: name, ReconnectMin: 20 * time.Millisecond, ReconnectMax: 500 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	t := &traffic{books: b, conn: conn, publish: newGate(), consume: newGate(), stop: make(chan struct{})}
	topology := &rabbit.Topology{RetrySteps: []time.Duration{}}
	if t.pub, err = rabbit.NewPublisher(conn, rabbit.PublisherConfig{}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if t.sub, err = rabbit.NewSubscriber(conn, rabbit.SubscriberConfig{Concurrency: workers, Topology: topology}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	// The run's end is Close: it lets everything in hand finish.
	msgs, err := t.sub.Subscribe(context.WithoutCancel(ctx), queue)
	if err != nil {
		return nil, errors.Join(err, t.sub.Close(), conn.Close())
	}
	for range workers {
		t.working.Go(func() {
			for m := range msgs {
				if t.consume.pass(nil) {
					b.take(m.UUID, m.Payload)
					m.Ack()
					t.consume.leave()
				}
			}
		})
	}
	for range producers {
		t.producing.Go(func() { t.produce(ctx) })
	}
	return t, nil
}

func (t *traffic) produce(ctx context.Context) {
	for t.publish.pass(t.stop) {
		select {
		case <-t.stop:
			t.publish.leave()
			return
		default:
		}
		t.room()
		t.publishBatch(ctx)
		t.publish.leave()
	}
}

// room waits until the consumers have caught up.
func (t *traffic) room() {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for t.books.confirmed.Load()-t.books.destroyed.Load()-t.books.effects.Load() > backlog {
		select {
		case <-tick.C:
		case <-t.stop:
			return
		}
	}
}

// publishBatch returns when each message of a new batch is confirmed, however
// often it takes, or when the run was interrupted.
func (t *traffic) publishBatch(ctx context.Context) {
	msgs := make([]*message.Message, 0, batch)
	for range batch {
		n, ok := t.books.next()
		if !ok {
			break
		}
		msgs = append(msgs, message.NewMessage(strconv.FormatInt(n, 10), []byte(body(n))))
	}
	for len(msgs) > 0 && ctx.Err() == nil {
		var again []*message.Message
		for i, err := range t.pub.PublishEach(ctx, queue, msgs...) {
			b := t.books
			switch {
			case err == nil:
				b.confirmed.Add(1)
				continue
			case errors.Is(err, rabbit.ErrUnknown):
				b.unknown.Add(1)
			case errors.Is(err, rabbit.ErrUnroutable):
				b.unroutable.Add(1)
			case errors.Is(err, rabbit.ErrNacked):
				b.refused.Add(1)
			default:
				b.notSent.Add(1)
			}
			again = append(again, msgs[i])
		}
		msgs = again
	}
}

// end publishes no more, and consumes until nothing is left or patience is over;
// then it closes everything.
func (t *traffic) end(drained func() error) error {
	t.publish.release()
	close(t.stop)
	t.producing.Wait()
	t.consume.release()
	err := drained()
	err = errors.Join(err, t.sub.Close())
	t.working.Wait()
	return errors.Join(err, t.pub.Close(), t.conn.Close())
}
