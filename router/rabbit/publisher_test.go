package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/router/rabbit"
)

func numbered(n int) []*message.Message {
	msgs := make([]*message.Message, n)
	for i := range msgs {
		msgs[i] = message.NewMessage(fmt.Sprint(i), []byte("x"))
	}
	return msgs
}

func TestBatchLargerThanTheWindowIsConfirmedInOrder(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	pub := r.publisher(rabbit.PublisherConfig{Window: 8})
	r.must(pub.Publish(q, numbered(500)...))
	for i := range 500 {
		d, ok := r.get(q)
		if !ok || d.MessageId != fmt.Sprint(i) {
			t.Fatalf("message %d: got %q", i, d.MessageId)
		}
		if d.DeliveryMode != amqp.Persistent || d.Timestamp.IsZero() {
			t.Fatalf("not persistent or without time: %+v", d)
		}
	}
}

func TestEachMessageHasItsOwnResult(t *testing.T) {
	r := newRig(t)
	r.must(r.raw.ExchangeDeclare("events", "topic", true, false, false, false, nil))
	r.declare("wanted", nil)
	r.must(r.raw.QueueBind("wanted", "wanted", "events", false, nil))
	topics := rabbit.TopicExchange("events", "s")
	pub := r.publisher(rabbit.PublisherConfig{Topics: topics, Window: 4})

	// Equal in message-id and body, so that only routing tells them apart.
	var wg sync.WaitGroup
	results := map[string][]error{}
	var mu sync.Mutex
	for _, topic := range []string{"wanted", "unwanted"} {
		for range 5 {
			wg.Go(func() {
				msgs := make([]*message.Message, 50)
				for i := range msgs {
					msgs[i] = message.NewMessage("same", []byte("same"))
				}
				errs := pub.PublishEach(context.Background(), topic, msgs...)
				mu.Lock()
				defer mu.Unlock()
				results[topic] = append(results[topic], errs...)
			})
		}
	}
	wg.Wait()
	for _, err := range results["wanted"] {
		if err != nil {
			t.Errorf("routable message: %v", err)
		}
	}
	for _, err := range results["unwanted"] {
		if !errors.Is(err, rabbit.ErrUnroutable) {
			t.Errorf("unroutable message: %v", err)
		}
	}
	if n := r.ready("wanted"); n != 250 {
		t.Errorf("%d messages in the queue, want 250", n)
	}
}

func TestDistinctErrors(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	full := "full"
	r.declare(full, amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
	pub := r.publisher(rabbit.PublisherConfig{})
	fanout := r.publisher(rabbit.PublisherConfig{Topics: rabbit.PubSub("s")})
	big := message.NewMessage("big", []byte("x"))
	big.Metadata["h"] = strings.Repeat("x", 200_000)
	long := message.NewMessage(strings.Repeat("u", 256), nil)
	name := message.NewMessage("n", nil)
	name.Metadata[strings.Repeat("h", 256)] = "x"
	plain := func() *message.Message { return message.NewMessage("m", nil) }

	r.must(pub.Publish(full, plain()))
	for what, c := range map[string]struct {
		got  error
		want error
	}{
		"no queue":         {pub.Publish("nowhere", plain()), rabbit.ErrUnroutable},
		"no exchange":      {fanout.Publish("nowhere", plain()), rabbit.ErrNoExchange},
		"full queue":       {pub.Publish(full, plain()), rabbit.ErrNacked},
		"headers too big":  {pub.Publish(q, big), rabbit.ErrTooLarge},
		"message-id":       {pub.Publish(q, long), rabbit.ErrTooLarge},
		"header name":      {pub.Publish(q, name), rabbit.ErrTooLarge},
		"routing key":      {pub.Publish(strings.Repeat("q", 256), plain()), rabbit.ErrTooLarge},
		"in between, good": {pub.Publish(q, plain()), nil},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", what, c.got, c.want)
		}
	}
	errs := pub.PublishEach(context.Background(), q, plain(), big, plain())
	if errs[0] != nil || !errors.Is(errs[1], rabbit.ErrTooLarge) || errs[2] != nil {
		t.Errorf("a bad one between good ones: %v", errs)
	}
	if n := r.ready(q); n != 3 {
		t.Errorf("%d messages arrived, want 3", n)
	}
	r.must(pub.Close())
	if err := pub.Publish(q, plain()); !errors.Is(err, rabbit.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestExchangeDeletedLaterIsNamed(t *testing.T) {
	r := newRig(t)
	r.must(r.raw.ExchangeDeclare("gone", "fanout", true, false, false, false, nil))
	r.declare("gone_s", nil)
	r.must(r.raw.QueueBind("gone_s", "", "gone", false, nil))
	pub := r.publisher(rabbit.PublisherConfig{Topics: rabbit.PubSub("s")})
	r.must(pub.Publish("gone", numbered(1)...))
	r.must(r.raw.ExchangeDelete("gone", false, false))
	if err := pub.Publish("gone", numbered(1)...); !errors.Is(err, rabbit.ErrNoExchange) {
		t.Errorf("got %v", err)
	}
	r.must(r.raw.ExchangeDeclare("gone", "fanout", true, false, false, false, nil))
	r.must(r.raw.QueueBind("gone_s", "", "gone", false, nil))
	r.must(pub.Publish("gone", numbered(1)...))
}

func TestPublishingGoesOnAfterAConnectionLoss(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	pub := r.publisher(rabbit.PublisherConfig{})
	r.must(pub.Publish(q, numbered(1)...))
	r.cut(rabbit.Publish)
	var unknown int
	r.eventually("a publish succeeds again", func() bool {
		err := pub.Publish(q, numbered(1)...)
		if err != nil && !errors.Is(err, rabbit.ErrUnknown) {
			t.Fatalf("got %v", err)
		}
		if err != nil {
			unknown++
		}
		return err == nil
	})
	if n := r.ready(q); n < 2 || n > 2+unknown {
		t.Errorf("%d messages in the queue, %d of unknown outcome", n, unknown)
	}
}

func TestNoBrokerIsNotSentWithinTheTimeout(t *testing.T) {
	conn, err := rabbit.NewConnection("amqp://someone:s3cret@127.0.0.1:1/", rabbit.ConnectionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	pub, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{Timeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Close()
	err = pub.Publish("q", numbered(1)...)
	if !errors.Is(err, rabbit.ErrNotSent) || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v", err)
	}
}
