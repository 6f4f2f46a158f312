package rabbit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/router/rabbit"
)

func TestShutdownUnderLoadReturnsNothingThatRuns(t *testing.T) {
	for _, how := range []string{"router closed", "context cancelled"} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t)
			q := r.queue(amqp.Table{"x-queue-type": "quorum"})
			const n, workers = 400, 16
			for i := range n {
				r.send(q, amqp.Publishing{MessageId: fmt.Sprint(i)})
			}
			sub := r.subscriber(rabbit.SubscriberConfig{Concurrency: workers, CloseTimeout: 10 * time.Second})
			router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 20 * time.Second}, r.log)
			r.must(err)
			var began, ended atomic.Int64
			var mu sync.Mutex
			done, enough := map[string]bool{}, make(chan struct{})
			router.AddConsumerHandler("h", q, sub, func(msg *message.Message) error {
				if began.Add(1) == 4*workers {
					close(enough)
				}
				select {
				case <-time.After(200 * time.Millisecond):
				case <-msg.Context().Done():
					t.Error("a running handler lost its context")
				}
				mu.Lock()
				done[msg.UUID] = true
				mu.Unlock()
				ended.Add(1)
				return nil
			})
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			stopped := make(chan error, 1)
			go func() { stopped <- router.Run(ctx) }()
			<-enough
			start := time.Now()
			if how == "router closed" {
				r.must(router.Close())
			} else {
				cancel()
			}
			r.must(<-stopped)
			took := time.Since(start)
			left := r.back(q, n-len(done))
			t.Logf("closed in %s: %d handlers began, %d ended, %d messages left, stats %+v", took, began.Load(), ended.Load(), left, sub.Stats())
			if took > 5*time.Second {
				t.Errorf("close took %s", took)
			}
			if began.Load() != ended.Load() || len(done) != int(ended.Load()) || len(done)+left != n {
				t.Errorf("began %d, ended %d, distinct %d, left %d: want the last two to make %d", began.Load(), ended.Load(), len(done), left, n)
			}
			for range left {
				d, _ := r.get(q)
				if done[d.MessageId] {
					t.Errorf("message %s was done and is still in the queue", d.MessageId)
				}
			}
		})
	}
}

func TestHandlersThatDoNotEndLoseTheirMessages(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	r.send(q, amqp.Publishing{MessageId: "stuck"})
	sub := r.subscriber(rabbit.SubscriberConfig{CloseTimeout: 300 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "kept"))
	msgs, err := sub.Subscribe(ctx, q)
	r.must(err)
	msg := r.receive(msgs)
	cancel()
	stopping, cancel := letter.UntilStopping(msg.Context())
	defer cancel()
	<-stopping.Done()
	if msg.Context().Err() != nil {
		t.Error("the context ended with the drain, not with its deadline")
	}
	select {
	case <-msg.Context().Done():
	case <-time.After(patience):
		t.Fatal("the context did not end with the drain's deadline")
	}
	if msg.Context().Value(key{}) != "kept" {
		t.Error("the values of Subscribe's context are lost")
	}
	if _, open := <-msgs; open {
		t.Error("a message was handed out in the drain")
	}
	msg.Ack() // too late: does nothing
	if d, ok := r.get(q); !ok || d.MessageId != "stuck" {
		t.Error("the message did not go back")
	}
}

type key struct{}

func TestNackedMessagesGoBackAtOnceAtTheEnd(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	for i := range 8 {
		r.send(q, amqp.Publishing{MessageId: fmt.Sprint(i)})
	}
	sub := r.subscriber(rabbit.SubscriberConfig{Concurrency: 4, RequeueMin: time.Hour, RequeueMax: time.Hour})
	msgs := r.subscribe(sub, q)
	for range 3 {
		r.receive(msgs).Nack()
	}
	held := r.receive(msgs)
	closed := make(chan error)
	go func() { closed <- sub.Close() }()
	r.eventually("all but the running one are back while it runs", func() bool { return r.ready(q) == 7 })
	held.Nack()
	r.must(<-closed)
	if n := r.back(q, 8); n != 8 {
		t.Errorf("%d messages in the queue", n)
	}
}

func TestSettlingInAnyOrderIsExact(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	const n = 1500
	for i := range n {
		r.send(q, amqp.Publishing{MessageId: fmt.Sprint(i)})
	}
	sub := r.subscriber(rabbit.SubscriberConfig{Concurrency: 64, RequeueMin: time.Hour, RequeueMax: time.Hour})
	msgs := r.subscribe(sub, q)
	var held []*message.Message
	back := map[string]bool{}
	settle := func() {
		i := rand.IntN(len(held))
		msg := held[i]
		held[i] = held[len(held)-1]
		held = held[:len(held)-1]
		if len(back) < 15 && rand.IntN(40) == 0 {
			back[msg.UUID] = true
			msg.Nack()
			return
		}
		msg.Ack()
	}
	for range n {
		held = append(held, r.receive(msgs))
		for len(held) > 40 || len(held) > 0 && rand.IntN(3) == 0 {
			settle()
		}
	}
	for len(held) > 0 {
		settle()
	}
	r.must(sub.Close())
	if got := r.back(q, len(back)); got != len(back) {
		t.Errorf("%d messages in the queue, %d were nacked", got, len(back))
	}
	for range len(back) {
		if d, _ := r.get(q); !back[d.MessageId] {
			t.Errorf("message %q is in the queue and was acked", d.MessageId)
		}
	}
	if s := sub.Stats(); s.Late != 0 || s.Reopened != 0 || s.Delivered != n {
		t.Errorf("the channel did not live through it: %+v", s)
	}
}

func TestSubscribeWhileClosingIsRefused(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	sub := r.subscriber(rabbit.SubscriberConfig{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			msgs, err := sub.Subscribe(context.Background(), q)
			if err != nil {
				return
			}
			for range msgs {
				t.Error("a message from an empty queue")
			}
		})
	}
	r.must(sub.Close())
	wg.Wait()
	if _, err := sub.Subscribe(context.Background(), q); err == nil {
		t.Error("Subscribe after Close must fail")
	}
	q2, err := r.raw.QueueDeclarePassive(q, true, false, false, false, nil)
	r.must(err)
	if q2.Consumers != 0 {
		t.Errorf("%d consumers are left", q2.Consumers)
	}
}
