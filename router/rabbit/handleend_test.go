package rabbit_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// consume starts a loop that handles one delivery after the other; ended is
// closed when its deliveries have ended.
func (r *rig) consume(queue string, handle func(amqp.Delivery)) (ch *amqp.Channel, ended <-chan struct{}) {
	r.Helper()
	ch = r.channel()
	deliveries, err := ch.Consume(queue, "loop", false, false, false, false, nil)
	r.must(err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for d := range deliveries {
			handle(d)
		}
	}()
	return ch, done
}

// A loop that goes on after the end of Handle's context keeps what it gets, or
// the delivery limit of the queue would make letters of healthy messages.
func TestHandleReturnsNothingAfterItsEnd(t *testing.T) {
	const n = 10
	r := newRig(t)
	box, db := r.shop()
	q := r.queue(amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(2)})
	r.declare(rabbit.DeadLetterQueue(q), nil)
	ctx, cancel := context.WithCancel(context.Background())
	handle, err := rabbit.Handle(ctx, box, rabbit.HandleConfig{Queue: q, Letters: r.publisher(rabbit.PublisherConfig{})}, write)
	r.must(err)
	cancel()
	var received atomic.Int64
	loop, ended := r.consume(q, func(d amqp.Delivery) {
		received.Add(1)
		handle(d)
	})
	for range n {
		r.send(q, amqp.Publishing{MessageId: "m", Body: []byte("m")})
	}
	r.eventually("the loop gets all", func() bool { return received.Load() >= n })
	if r.poll(500*time.Millisecond, func() bool { return received.Load() > n }) {
		t.Errorf("%d deliveries of %d messages", received.Load(), n)
	}
	r.must(loop.Close())
	<-ended
	r.eventually("all are back", func() bool { return r.ready(q) == n })
	if got := effects(r, db); got != 0 {
		t.Errorf("%d effects after the end", got)
	}
}

// A panic in a func of the configuration costs neither the process nor the
// delivery, and what goes back does so after growing pauses.
func TestHandleOutlivesPanicsOutsideOfTheHandler(t *testing.T) {
	r := newRig(t)
	box, _ := r.shop()
	q := r.queue(amqp.Table{"x-queue-type": "quorum"})
	dlq := rabbit.DeadLetterQueue(q)
	r.declare(dlq, nil)
	panics := 0
	handle, err := rabbit.Handle(context.Background(), box, rabbit.HandleConfig{
		Queue: q, Letters: r.publisher(rabbit.PublisherConfig{}),
		DeadLetterQueue: func(string) string {
			// Asked once at the start.
			if panics++; 1 < panics && panics <= 4 {
				panic("no name")
			}
			return dlq
		},
	}, func(context.Context, amqp.Delivery) error { return inbox.Permanent(errors.New("no stock")) })
	r.must(err)
	var mu sync.Mutex
	var began []time.Time
	loop, ended := r.consume(q, func(d amqp.Delivery) {
		mu.Lock()
		began = append(began, time.Now())
		mu.Unlock()
		handle(d)
	})
	r.send(q, amqp.Publishing{MessageId: "m"})
	if _, ok := r.get(dlq); !ok {
		t.Error("no letter")
	}
	r.must(loop.Cancel("loop", false))
	<-ended
	r.must(loop.Close())
	if len(began) != 4 {
		t.Fatalf("%d deliveries, want 4", len(began))
	}
	for i, least := range []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond} {
		if wait := began[i+1].Sub(began[i]); wait < least {
			t.Errorf("came again after %s, want at least %s", wait, least)
		}
	}
}

// What a run does to its delivery is not seen by the next one, nor by the
// fingerprint or the letter.
func TestHandlerMayChangeItsDelivery(t *testing.T) {
	r := newRig(t)
	box, _ := r.shop()
	q := r.queue(nil)
	dlq := rabbit.DeadLetterQueue(q)
	r.declare(dlq, nil)
	runs := 0
	handle, err := rabbit.Handle(context.Background(), box, rabbit.HandleConfig{Queue: q, Letters: r.publisher(rabbit.PublisherConfig{})}, func(_ context.Context, d amqp.Delivery) error {
		runs++
		table, _ := d.Headers["table"].(amqp.Table)
		if string(d.Body) != "sealed" || table["deep"] != "kept" {
			t.Errorf("run %d sees %q and %v", runs, d.Body, d.Headers)
		}
		copy(d.Body, bytes.ToUpper(d.Body))
		table["deep"] = "changed"
		delete(d.Headers, "event_id")
		switch {
		case runs == 1:
			return errors.New("the first fails")
		case d.MessageId == "dies":
			return inbox.Permanent(errors.New("no stock"))
		}
		return nil
	})
	r.must(err)
	loop, ended := r.consume(q, handle)
	for _, id := range []string{"lives", "lives", "dies"} {
		r.send(q, amqp.Publishing{MessageId: id, Headers: amqp.Table{"event_id": id, "table": amqp.Table{"deep": "kept"}}, Body: []byte("sealed")})
	}
	d, ok := r.get(dlq)
	table, _ := d.Headers["table"].(amqp.Table)
	if !ok || d.MessageId != "dies" || string(d.Body) != "sealed" || d.Headers["event_id"] != "dies" || table["deep"] != "kept" {
		t.Errorf("letter %q with body %q, %v", d.MessageId, d.Body, d.Headers)
	}
	r.must(loop.Cancel("loop", false))
	<-ended
	r.must(loop.Close())
	if _, more, err := r.raw.Get(dlq, true); more || err != nil || runs != 3 {
		t.Errorf("%d runs, want 3; another letter: %v, %v", runs, more, err)
	}
}

// A letter that cannot be published does not keep the loop of a dead channel.
func TestHandleGivesUpWaitsWhenItsChannelDies(t *testing.T) {
	r := newRig(t)
	box, _ := r.shop()
	q := r.queue(nil)
	dlq := rabbit.DeadLetterQueue(q)
	r.declare(dlq, nil)
	failed := make(chan struct{}, 100)
	handle, err := rabbit.Handle(context.Background(), box, rabbit.HandleConfig{
		Queue: q, Letters: r.publisher(rabbit.PublisherConfig{}),
		DeadLetterQueue: func(string) string { failed <- struct{}{}; return dlq },
	}, func(ctx context.Context, _ amqp.Delivery) error {
		if d, ok := letter.FromContext(ctx); !ok || d.Queue != q {
			t.Errorf("the context does not hold the delivery: %+v", d)
		}
		return inbox.Permanent(errors.New("no stock"))
	})
	r.must(err)
	<-failed // asked at the start
	r.remove(dlq)
	loop, ended := r.consume(q, handle)
	r.send(q, amqp.Publishing{MessageId: "m"})
	<-failed
	<-failed
	r.must(loop.Close())
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the call waits on, for a delivery that is no longer its own")
	}
	r.eventually("the message is back", func() bool { return r.ready(q) == 1 })
}
