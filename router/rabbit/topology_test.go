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
	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/router/rabbit"
)

func TestNothingIsDeclaredUnasked(t *testing.T) {
	r := newRig(t)
	pub := r.publisher(rabbit.PublisherConfig{Topics: rabbit.PubSub("s")})
	sub := r.subscriber(rabbit.SubscriberConfig{Topics: rabbit.PubSub("s")})
	if err := pub.Publish("events", numbered(1)...); !errors.Is(err, rabbit.ErrNoExchange) {
		t.Errorf("publish: %v", err)
	}
	if err := sub.SubscribeInitialize("events"); !errors.Is(err, rabbit.ErrNoQueue) {
		t.Errorf("initialize: %v", err)
	}
	var queues []any
	r.manage("GET", "/api/queues/"+r.vhost(), &queues)
	if len(queues) != 0 {
		t.Errorf("queues were declared: %v", queues)
	}
}

func TestPresetsRouteAsTheTableSays(t *testing.T) {
	topology := &rabbit.Topology{RetrySteps: []time.Duration{}}
	for name, c := range map[string]struct {
		topics    func(service string) rabbit.Topics
		subscribe string
		queue     string
	}{
		"queues":         {func(string) rabbit.Topics { return rabbit.Queues() }, "orders.paid", "orders.paid"},
		"pub/sub":        {rabbit.PubSub, "orders.paid", "orders.paid_stock"},
		"topic exchange": {func(s string) rabbit.Topics { return rabbit.TopicExchange("events", s) }, "orders.*", "stock.orders.*"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			sub := r.subscriber(rabbit.SubscriberConfig{Topics: c.topics("stock"), Topology: topology})
			other := r.subscriber(rabbit.SubscriberConfig{Topics: c.topics("mail"), Topology: topology})
			msgs := r.subscribe(sub, c.subscribe)
			if name != "queues" {
				r.must(other.SubscribeInitialize(c.subscribe))
			}
			pub := r.publisher(rabbit.PublisherConfig{Topics: c.topics("any"), Topology: topology})
			r.must(pub.Publish("orders.paid", numbered(1)...))
			msg := r.receive(msgs)
			if d, _ := letter.FromContext(msg.Context()); d.Queue != c.queue {
				t.Errorf("came from queue %q, want %q", d.Queue, c.queue)
			}
			msg.Ack()
			if name != "queues" {
				r.receive(r.subscribe(other, c.subscribe)).Ack()
			}
		})
	}
}

func TestExistingQueuesAreUsedAsTheyAre(t *testing.T) {
	r := newRig(t)
	q := r.queue(amqp.Table{"x-max-length": int32(7)}) // classic
	r.send(q, amqp.Publishing{MessageId: "m"})
	sub := r.subscriber(rabbit.SubscriberConfig{Topology: &rabbit.Topology{}})
	r.receive(r.subscribe(sub, q)).Ack()
	if text := r.log.text(); !strings.Contains(text, "inequivalent arg") || !strings.Contains(text, q) {
		t.Errorf("the difference is not told:\n%s", text)
	}
	for _, name := range []string{rabbit.DeadLetterQueue(q), rabbit.RetryQueue(q, 5*time.Second), rabbit.RetryQueue(q, 2*time.Minute), rabbit.RetryQueue(q, time.Hour)} {
		r.must(r.conn.FindQueue(context.Background(), name))
	}
	if got := rabbit.RetryQueue("q", 90*time.Second) + " " + rabbit.RetryQueue("q", 2*time.Minute) + " " + rabbit.RetryQueue("q", time.Hour); got != "q.retry.1m30s q.retry.2m q.retry.1h" {
		t.Errorf("names: %s", got)
	}
}

// A queue with other arguments is used, and said once however often it is
// declared, with what to do about it.
func TestQueueWithOtherArgumentsIsSaidOnce(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	topology := &rabbit.Topology{RetrySteps: []time.Duration{}}
	sub := r.subscriber(rabbit.SubscriberConfig{Topology: topology})
	r.must(sub.SubscribeInitialize(q))
	r.subscribe(sub, q)
	r.must(r.publisher(rabbit.PublisherConfig{Topology: topology}).Publish(q, message.NewMessage("m", nil)))
	const said = "Queue exists with other arguments"
	if n := r.log.count(said); n != 1 {
		t.Errorf("said %d times:\n%s", n, r.log.text())
	}
	for _, word := range []string{"set a policy", "new name", "sekali inbox check --management URL", q} {
		if !strings.Contains(r.log.text(), word) {
			t.Errorf("the log does not say %q:\n%s", word, r.log.text())
		}
	}
}

// The delivery limit is the broker's answer to a message that kills its reader.
func TestMessageOverTheDeliveryLimitWaitsInTheDLQ(t *testing.T) {
	r := newRig(t)
	q := testservices.Name(t)
	sub := r.subscriber(rabbit.SubscriberConfig{Topology: &rabbit.Topology{DeliveryLimit: 2, RetrySteps: []time.Duration{}}})
	r.must(sub.SubscribeInitialize(q))
	r.send(q, everything())
	// A reader that dies with the message in hand, which every broker counts.
	r.eventually("the message is dead-lettered", func() bool {
		ch := r.channel()
		_, ok, err := ch.Get(q, false)
		r.must(err)
		r.must(ch.Close())
		return !ok && r.ready(rabbit.DeadLetterQueue(q)) == 1
	})
	// Nothing that its own readers do removes it from there.
	for range 30 {
		ch := r.channel()
		_, _, err := ch.Get(rabbit.DeadLetterQueue(q), false)
		r.must(err)
		r.must(ch.Close())
	}
	r.eventually("the letter is still there", func() bool { return r.ready(rabbit.DeadLetterQueue(q)) == 1 })
}

func TestDelayedRetryComesBackAndCanBeRepeated(t *testing.T) {
	r := newRig(t)
	q := testservices.Name(t)
	steps := []time.Duration{200 * time.Millisecond, 1500 * time.Millisecond}
	sub := r.subscriber(rabbit.SubscriberConfig{Concurrency: 4, Topology: &rabbit.Topology{RetrySteps: steps}})
	pub := r.publisher(rabbit.PublisherConfig{})
	delayer, err := rabbit.NewDelayer(pub, rabbit.DelayerConfig{Steps: steps[:1]})
	r.must(err)
	long, err := rabbit.NewDelayer(pub, rabbit.DelayerConfig{Steps: steps[1:]})
	r.must(err)
	ctx := context.Background()
	if err := delayer.Check(ctx, q); !errors.Is(err, rabbit.ErrNoQueue) {
		t.Errorf("check before the queues exist: %v", err)
	}
	msgs := r.subscribe(sub, q)
	r.must(delayer.Check(ctx, q))
	r.send(q, everything())
	slow := everything()
	slow.MessageId = "slow"
	r.send(q, slow)

	// The same message goes round four times: the broker must not take that for a
	// cycle. The one with the long delay does not hold it up.
	start := time.Now()
	rounds, slowCame := 0, time.Duration(0)
	for rounds < 4 || slowCame == 0 {
		msg := r.receive(msgs)
		d, _ := letter.FromContext(msg.Context())
		if msg.UUID == "slow" {
			if d.Headers[letter.HeaderAttempt] != nil {
				slowCame = time.Since(start)
			} else {
				msg.Metadata[letter.HeaderAttempt] = "1"
				got, err := long.Delay(ctx, msg, time.Second)
				r.must(err)
				if got != steps[1] {
					t.Errorf("chose %s", got)
				}
			}
			msg.Ack()
			continue
		}
		if want := fmt.Sprint(rounds); rounds > 0 && d.Headers[letter.HeaderAttempt] != want {
			t.Errorf("attempt header %v, want %s", d.Headers[letter.HeaderAttempt], want)
		}
		if rounds == 4 {
			t.Fatal("came once too often")
		}
		rounds++
		if rounds < 4 {
			msg.Metadata[letter.HeaderAttempt] = fmt.Sprint(rounds)
			if got, err := delayer.Delay(ctx, msg, time.Minute); err != nil || got != steps[0] {
				t.Fatalf("delay: %s, %v", got, err)
			}
		} else {
			queue, exchange, key := d.Origin()
			if queue != q || exchange != "" || key != q {
				t.Errorf("origin %q %q %q", queue, exchange, key)
			}
			if d.Headers["int64"] != int64(1)<<40 {
				t.Errorf("headers lost their types: %v", d.Headers)
			}
			history, _ := d.Headers[letter.HeaderHistory].(string)
			if n := strings.Count(history, "expired"); n < 3 {
				t.Errorf("history has %d stays: %q", n, history)
			}
			if took := time.Since(start); took > 1400*time.Millisecond {
				t.Errorf("three rounds of 200 ms took %s: held up by the long delay", took)
			}
		}
		msg.Ack()
	}
	if slowCame < steps[1] {
		t.Errorf("the long delay was %s", slowCame)
	}
	// The retry queue is gone: the message stays with the caller.
	r.send(q, everything())
	msg := r.receive(msgs)
	_, err = r.raw.QueueDelete(rabbit.RetryQueue(q, steps[0]), false, false, false)
	r.must(err)
	if _, err := delayer.Delay(ctx, msg, time.Second); !errors.Is(err, rabbit.ErrUnroutable) {
		t.Errorf("delay without a retry queue: %v", err)
	}
	msg.Ack()
	if _, err := delayer.Delay(ctx, message.NewMessage("u", nil), time.Second); err == nil {
		t.Error("a message from nowhere was delayed")
	}
}

func TestConfigurationFaultsAreToldAtOnce(t *testing.T) {
	_, err := rabbit.NewSubscriber(nil, rabbit.SubscriberConfig{
		Concurrency: 5, Prefetch: 2, CloseTimeout: -1, RequeueMin: time.Hour, RequeueMax: time.Second,
		Topology: &rabbit.Topology{QueueType: "odd", RetrySteps: []time.Duration{2, 1}},
		Topics:   rabbit.Topics{Queue: func(string) string { return "" }},
	})
	for _, field := range []string{"connection", "Prefetch", "CloseTimeout", "RequeueMin", "QueueType", "RetrySteps", "Topics"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named in: %v", field, err)
		}
	}
}
