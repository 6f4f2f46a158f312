package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// unpublishable takes no letter, ever.
type unpublishable struct{ tried chan struct{} }

func (u unpublishable) PublishEach(_ context.Context, _ string, msgs ...*message.Message) []error {
	u.tried <- struct{}{}
	errs := make([]error, len(msgs))
	for i := range errs {
		errs[i] = errors.New("it does not fit")
	}
	return errs
}

// A message that cannot leave takes one place, however often the channel is
// lost under it.
func TestStuckLetterKeepsOnePlaceOverReconnects(t *testing.T) {
	r := newRig(t)
	box, _ := r.shop()
	q := r.queue(amqp.Table{"x-queue-type": "quorum"})
	letters := unpublishable{make(chan struct{}, 1000)}
	stack, err := middleware.NewStack(box, letters, middleware.StackConfig{})
	r.must(err)
	mill, err := message.NewRouter(message.RouterConfig{}, nil)
	r.must(err)
	done := make(chan string, 100)
	sub := r.subscriber(rabbit.SubscriberConfig{Concurrency: 2, Register: stack.Register})
	mill.AddConsumerHandler("h", q, sub, func(msg *message.Message) error {
		if strings.HasPrefix(msg.UUID, "bad") {
			return inbox.Permanent(errors.New("no stock"))
		}
		done <- msg.UUID
		return nil
	}).AddMiddleware(stack.Middleware)
	ended := make(chan error, 1)
	go func() { ended <- mill.Run(context.Background()) }()
	<-mill.Running()
	r.send(q, amqp.Publishing{MessageId: "bad"})
	for i := range 4 {
		<-letters.tried
		name := fmt.Sprint("good", i)
		r.send(q, amqp.Publishing{MessageId: name})
		select {
		case got := <-done:
			if got != name {
				t.Errorf("%q was handled, want %q", got, name)
			}
		case <-time.After(patience):
			t.Fatalf("no place is left after %d lost connections", i)
		}
		r.cut(rabbit.Consume)
		r.eventually("it consumes again", func() bool { return sub.Stats().Reopened == int64(i+1) })
		for len(letters.tried) > 0 {
			<-letters.tried
		}
	}
	r.must(mill.Close())
	r.must(<-ended)
}

// When the channel dies, whoever merely waits is told; a running handler is not
// disturbed.
func TestWaitsEndWithTheirChannel(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	r.send(q, amqp.Publishing{MessageId: "m"})
	sub := r.subscriber(rabbit.SubscriberConfig{})
	msgs := r.subscribe(sub, q)
	msg := r.receive(msgs)
	waiting, cancel := letter.UntilStopping(msg.Context())
	defer cancel()
	r.cut(rabbit.Consume)
	select {
	case <-waiting.Done():
	case <-time.After(patience):
		t.Fatal("the wait goes on without its channel")
	}
	if msg.Context().Err() != nil {
		t.Error("the handler's own context ended")
	}
	msg.Nack()
	again := r.receive(msgs)
	waiting, cancel = letter.UntilStopping(again.Context())
	defer cancel()
	if waiting.Err() != nil {
		t.Error("the next delivery may not wait")
	}
	again.Ack()
}

// A header that a producer set says nothing about this queue.
func TestForeignDeliveryCountDoesNotSlowTheStart(t *testing.T) {
	const n = 6
	r := newRig(t)
	q := r.queue(nil)
	for i := range n {
		r.send(q, amqp.Publishing{MessageId: fmt.Sprint(i), Headers: amqp.Table{"x-delivery-count": int64(7)}})
	}
	msgs := r.subscribe(r.subscriber(rabbit.SubscriberConfig{Concurrency: n}), q)
	var held []*message.Message
	for range n {
		held = append(held, r.receive(msgs))
	}
	for _, msg := range held {
		msg.Ack()
	}
}

// The careful start ends, whatever the queue is full of.
func TestCarefulStartIsBounded(t *testing.T) {
	const old, window = 12, 4
	r := newRig(t)
	q := r.queue(nil)
	for i := range old {
		r.send(q, amqp.Publishing{MessageId: fmt.Sprint(i)})
	}
	ch := r.channel()
	for range old {
		_, _, err := ch.Get(q, false)
		r.must(err)
	}
	r.must(ch.Close())
	r.eventually("all are back", func() bool { return r.ready(q) == old })
	msgs := r.subscribe(r.subscriber(rabbit.SubscriberConfig{Concurrency: window, Prefetch: window}), q)
	for range window {
		r.receive(msgs).Ack()
	}
	var held []*message.Message
	for range window {
		held = append(held, r.receive(msgs))
	}
	for _, msg := range held {
		msg.Ack()
	}
	for range old - 2*window {
		r.receive(msgs).Ack()
	}
}
