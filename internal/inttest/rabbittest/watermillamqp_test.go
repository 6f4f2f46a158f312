package rabbittest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// Our marshaler fits watermill-amqp's configuration, and the other way round.
var (
	_ wamqp.Marshaler  = rabbit.DefaultMarshaler{}
	_ rabbit.Marshaler = wamqp.DefaultMarshaler{}
)

func receive(t *testing.T, msgs <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case m, ok := <-msgs:
		if ok {
			return m
		}
		t.Fatal("the channel of messages was closed")
	case <-time.After(30 * time.Second):
		t.Fatal("no message came")
	}
	return nil
}

// The first step of a rollout: watermill-amqp stays, with our marshaler. It then
// reads what its own one nacks for ever.
func TestMarshalerInWatermillAMQP(t *testing.T) {
	url, q := testservices.NewVirtualHost(t), testservices.Name(t)
	config := wamqp.NewDurableQueueConfig(url)
	config.Marshaler = rabbit.DefaultMarshaler{}
	sub, err := wamqp.NewSubscriber(config, watermill.NopLogger{})
	must(t, err)
	defer sub.Close()
	msgs, err := sub.Subscribe(context.Background(), q)
	must(t, err)

	conn, err := amqp091.Dial(url)
	must(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(t, err)
	must(t, ch.PublishWithContext(context.Background(), "", q, true, false, amqp091.Publishing{
		MessageId: "m1", CorrelationId: "c1",
		Headers: amqp091.Table{"n": int64(5), "x-death": []any{amqp091.Table{"count": int64(1)}}, "nil": nil},
	}))
	m := receive(t, msgs)
	if m.UUID != "m1" || m.Metadata["n"] != "5" || m.Metadata[rabbit.MetadataCorrelationID] != "c1" {
		t.Errorf("got %q %v", m.UUID, m.Metadata)
	}
	m.Ack()

	pub, err := wamqp.NewPublisher(config, watermill.NopLogger{})
	must(t, err)
	defer pub.Close()
	must(t, pub.Publish(q, message.NewMessage("u2", []byte("x"))))
	if m = receive(t, msgs); m.UUID != "u2" || m.Metadata[rabbit.MetadataMessageID] != "u2" {
		t.Errorf("got %q %v", m.UUID, m.Metadata)
	}
	m.Ack()
}

// The second step: old and new instances on one queue, and publishers of both.
func TestOldAndNewInstancesSideBySide(t *testing.T) {
	url, topic, service := testservices.NewVirtualHost(t), testservices.Name(t), "stock"
	old := wamqp.NewDurablePubSubConfig(url, wamqp.GenerateQueueNameTopicNameWithSuffix(service))
	oldSub, err := wamqp.NewSubscriber(old, watermill.NopLogger{})
	must(t, err)
	defer oldSub.Close()
	oldPub, err := wamqp.NewPublisher(old, watermill.NopLogger{})
	must(t, err)
	defer oldPub.Close()
	oldMsgs, err := oldSub.Subscribe(context.Background(), topic) // declares
	must(t, err)

	conn, err := rabbit.NewConnection(url, rabbit.ConnectionConfig{})
	must(t, err)
	defer conn.Close()
	topics := rabbit.PubSub(service)
	sub, err := rabbit.NewSubscriber(conn, rabbit.SubscriberConfig{Topics: topics, CloseTimeout: 3 * time.Second})
	must(t, err)
	defer sub.Close()
	pub, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{Topics: topics})
	must(t, err)
	defer pub.Close()
	newMsgs, err := sub.Subscribe(context.Background(), topic)
	must(t, err)

	for i := range 100 {
		m := message.NewMessage(fmt.Sprint(i), []byte("x"))
		m.Metadata["colour"] = "red"
		if i%2 == 0 {
			must(t, oldPub.Publish(topic, m))
		} else {
			must(t, pub.Publish(topic, m))
		}
	}
	seen, byOld, byNew := map[string]bool{}, 0, 0
	for len(seen) < 100 {
		var m *message.Message
		select {
		case m = <-oldMsgs:
			byOld++
		case m = <-newMsgs:
			byNew++
		case <-time.After(30 * time.Second):
			t.Fatalf("%d of 100 messages came", len(seen))
		}
		if m.Metadata["colour"] != "red" {
			t.Errorf("metadata of %q: %v", m.UUID, m.Metadata)
		}
		seen[m.UUID] = true
		m.Ack()
	}
	if byOld == 0 || byNew == 0 || byOld+byNew != 100 {
		t.Errorf("old instance %d, new instance %d", byOld, byNew)
	}
}

func mustB(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
