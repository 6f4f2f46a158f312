package rabbit_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// producer is another client's message. Java's int, long, String, Boolean and
// byte[] go over the wire as Go's int32, int64, string, bool and []byte do.
type producer struct {
	name string
	rule string // of the key; "" is the default
	send func(r *rig, queue string)
	key  string
	meta map[string]string // what a Watermill handler sees of it
}

func plainly(p amqp.Publishing) func(r *rig, queue string) {
	return func(r *rig, queue string) { r.send(queue, p) }
}

var placed = time.Date(2023, 11, 14, 22, 13, 20, 0, time.UTC)

// trace is as long as RepublishMessageRecoverer lets it be: frame_max less 20,000.
var trace = "org.springframework.amqp.rabbit.support.ListenerExecutionFailedException: Listener threw exception\n" +
	strings.Repeat("\tat com.example.Orders.place(Orders.java:42)\n", 2465)

var producers = []producer{
	{
		// A message of RabbitTemplate with Jackson2JsonMessageConverter and
		// createMessageIds, which failed in a Spring listener, was published to an
		// error queue with the stack trace, and was moved here by hand. Names and
		// headroom: spring-amqp, RepublishMessageRecoverer.java and
		// DefaultClassMapper.java.
		name: "Spring AMQP", key: "6f9619ff-8b86-d011-b42d-00c04fc964ff",
		send: plainly(amqp.Publishing{
			ContentType: "application/json", ContentEncoding: "UTF-8", DeliveryMode: 2,
			MessageId: "6f9619ff-8b86-d011-b42d-00c04fc964ff", Body: []byte(`{"id":1}`),
			Headers: amqp.Table{
				"__TypeId__": "com.example.OrderPlaced", "x-exception-stacktrace": trace, "x-exception-message": "no stock",
				"x-original-exchange": "orders", "x-original-routingKey": "orders.placed",
				"x-death": []any{amqp.Table{"count": int64(1), "reason": "rejected", "queue": "stock", "time": placed, "exchange": "orders", "routing-keys": []any{"orders.placed"}}},
			},
		}),
		meta: map[string]string{"__TypeId__": "com.example.OrderPlaced", rabbit.MetadataContentType: "application/json", "x-exception-message": "no stock"},
	},
	{
		// RabbitMQ's JMS client to a destination of AMQP: rabbitmq-jms-client,
		// RMQMessage.toAmqpHeaders; user properties as they are. It sets no message-id.
		name: "RabbitMQ JMS client", key: "ID:0c2a5a9e-7b0f-4a8e-9a57-4c1d6f0f6a11",
		send: plainly(amqp.Publishing{
			ContentType: "application/octet-stream", DeliveryMode: 2, Priority: 4, Body: []byte("lamp"),
			Headers: amqp.Table{
				"JMSMessageID": "ID:0c2a5a9e-7b0f-4a8e-9a57-4c1d6f0f6a11", "JMSDeliveryMode": "PERSISTENT", "JMSPriority": int32(4),
				"JMSTimestamp": int64(1700000000123), "JMSType": "TextMessage", "tries": int16(1), "flag": int8(1), "weight": float32(0.5),
			},
		}),
		meta: map[string]string{"JMSType": "TextMessage", "JMSTimestamp": "1700000000123", rabbit.MetadataPriority: "4"},
	},
	{
		// A property of JMS that the sender set for us: a name that JMS allows.
		name: "JMS with event_id", key: "e-77",
		send: plainly(amqp.Publishing{Body: []byte("lamp"), Headers: amqp.Table{"JMSMessageID": "ID:1", "event_id": "e-77"}}),
	},
	{
		// cloudevents/spec, AMQP protocol binding 1.0.2, 3.1.4, as RabbitMQ's AMQP 1.0
		// hands application properties on.
		name: "CloudEvents, binary", rule: "cloudevents", key: inbox.FrameKey("/mycontext/subcontext", "1234-1234-1234"),
		send: plainly(amqp.Publishing{
			ContentType: "application/json; charset=utf-8", Body: []byte(`{"id":1}`),
			Headers: amqp.Table{
				"cloudEvents:specversion": "1.0", "cloudEvents:type": "com.example.someevent", "cloudEvents:time": placed,
				"cloudEvents:id": "1234-1234-1234", "cloudEvents:source": "/mycontext/subcontext",
			},
		}),
		meta: map[string]string{"cloudEvents:time": "2023-11-14T22:13:20Z"},
	},
	{
		// 3.2.4 of the same.
		name: "CloudEvents, structured", rule: "cloudevents", key: inbox.FrameKey("/mycontext", "A234"),
		send: plainly(amqp.Publishing{
			ContentType: "application/cloudevents+json; charset=utf-8",
			Body:        []byte(`{"specversion":"1.0","type":"com.example.someevent","id":"A234","source":"/mycontext","data":{"id":1}}`),
		}),
	},
	{
		// Python's pika 1.2.0, byte for byte: pika.BasicProperties(content_type=...,
		// headers={'text': 'grün', 'small': 7, 'negative': -7, 'big': 1 << 40, 'yes':
		// True, 'nothing': None, 'price': Decimal('12.34'), 'raw': b'\x00\xff', 'at':
		// datetime(...), 'list': [1, 'a', [True]], 'nested': {'deep': {'n': 1}}},
		// delivery_mode=2, correlation_id='c-1', message_id='order-1', ...), written
		// down from pika.frame.Header.marshal.
		name: "Python pika", key: "order-1",
		send: func(r *rig, queue string) { r.sendFrames(queue, pikaHeader, []byte(`{"id": 1}`)) },
		meta: map[string]string{
			"text": "grün", "small": "7", "negative": "-7", "big": "1099511627776", "yes": "true", "price": "12.34", "raw": "\x00\xff",
			"at": "2023-11-14T22:13:20Z", rabbit.MetadataCorrelationID: "c-1", rabbit.MetadataType: "order.placed",
			rabbit.MetadataAppID: "shop", rabbit.MetadataTimestamp: "2023-11-14T22:13:20Z",
		},
	},
	{
		name: "Python pika, business key", rule: "header:event_id, json:/id", key: "1",
		send: func(r *rig, queue string) { r.sendFrames(queue, pikaHeader, []byte(`{"id": 1}`)) },
	},
}

const pikaHeader = `
	003c00000000000000000009b4e8106170706c69636174696f6e2f6a736f6e000000a0047465787453000000056772c3bc6e
	05736d616c6c4900000007086e6567617469766549fffffff9036269676c0000010000000000037965737401076e6f746869
	6e67560570726963654402000004d203726177780000000200ff02617454000000006553f100046c69737441000000124900
	00000153000000016141000000027401066e6573746564460000001104646565704600000007016e49000000010203632d31
	076f726465722d31000000006553f1000c6f726465722e706c616365640473686f70`

// Each message of each producer, sent twice, is handled once under its own key,
// by a Watermill router as by a plain loop.
func TestMessagesOfOtherClientsAreHandledOnce(t *testing.T) {
	r := newRig(t)
	for _, p := range producers {
		t.Run(p.name, func(t *testing.T) {
			key := inbox.DefaultKey
			if p.rule != "" {
				var err error
				key, err = inbox.ParseKey(p.rule)
				r.must(err)
			}
			r := &rig{TB: t, url: r.url, conn: r.conn, raw: r.raw, log: r.log}
			box, _ := r.shop()
			for route, run := range map[string]func(r *rig, box *inbox.Inbox, key inbox.Key, queue string, meta map[string]string) *atomic.Int64{
				"router": inRouter, "loop": inLoop,
			} {
				queue := r.queue(nil)
				r.declare(rabbit.DeadLetterQueue(queue), nil)
				runs := run(r, box, key, queue, p.meta)
				p.send(r, queue)
				p.send(r, queue)
				r.send(queue, amqp.Publishing{MessageId: "last", Headers: amqp.Table{"event_id": "last"}, Body: []byte(`{"id":"last"}`)})
				want, letters := int64(2), 0 // runs: of the message and of the last one
				if p.rule == "cloudevents" {
					want, letters = 1, 1 // the last one is none
				}
				r.eventually(route+": all is settled", func() bool {
					return runs.Load() >= want && r.ready(rabbit.DeadLetterQueue(queue)) >= letters || r.ready(rabbit.DeadLetterQueue(queue)) > letters
				})
				if runs.Load() != want {
					t.Errorf("%s: the handler ran %d times, want %d", route, runs.Load(), want)
				}
				records, err := box.Lookup(context.Background(), inbox.Claim{Consumer: queue, Key: p.key})
				r.must(err)
				if !records[0].Found {
					d, _ := r.get(rabbit.DeadLetterQueue(queue))
					t.Errorf("%s: no claim under %q; letter: %v", route, p.key, d.Headers[letter.HeaderReason])
				}
			}
		})
	}
}

// inRouter counts the runs of the handler.
func inRouter(r *rig, box *inbox.Inbox, key inbox.Key, queue string, meta map[string]string) *atomic.Int64 {
	r.Helper()
	runs := new(atomic.Int64)
	pub := r.publisher(rabbit.PublisherConfig{})
	stack, err := middleware.NewStack(box, pub.ToQueues(), middleware.StackConfig{Config: middleware.Config{Key: key}})
	r.must(err)
	mill, err := message.NewRouter(message.RouterConfig{}, nil)
	r.must(err)
	sub := r.subscriber(rabbit.SubscriberConfig{Register: stack.Register})
	mill.AddConsumerHandler("h", queue, sub, func(msg *message.Message) error {
		if runs.Add(1) == 1 {
			for name, want := range meta {
				if msg.Metadata[name] != want {
					r.Errorf("metadata %q is %q, want %q", name, msg.Metadata[name], want)
				}
			}
		}
		return nil
	}).AddMiddleware(stack.Middleware)
	done := make(chan error, 1)
	go func() { done <- mill.Run(context.Background()) }()
	<-mill.Running()
	r.Cleanup(func() {
		r.must(mill.Close())
		r.must(<-done)
	})
	return runs
}

func inLoop(r *rig, box *inbox.Inbox, key inbox.Key, queue string, _ map[string]string) *atomic.Int64 {
	r.Helper()
	runs := new(atomic.Int64)
	r.declare(rabbit.DeadLetterQueue(queue), nil)
	pub := r.publisher(rabbit.PublisherConfig{})
	handle, err := rabbit.Handle(context.Background(), box, rabbit.HandleConfig{Queue: queue, Letters: pub, Key: key}, func(context.Context, amqp.Delivery) error {
		runs.Add(1)
		return nil
	})
	r.must(err)
	ch := r.channel()
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	r.must(err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for d := range deliveries {
			handle(d)
		}
	}()
	r.Cleanup(func() {
		r.must(ch.Close())
		<-done
	})
	return runs
}

// A letter or retry of a message whose headers nearly fill a frame keeps them.
func TestLargeHeadersOfSpringFitIntoALetter(t *testing.T) {
	r := newRig(t)
	box, _ := r.shop()
	queue := r.queue(nil)
	dlq := rabbit.DeadLetterQueue(queue)
	r.declare(dlq, nil)
	pub := r.publisher(rabbit.PublisherConfig{})
	handle, err := rabbit.Handle(context.Background(), box, rabbit.HandleConfig{Queue: queue, Letters: pub}, func(context.Context, amqp.Delivery) error {
		return inbox.Permanent(errLong)
	})
	r.must(err)
	producers[0].send(r, queue)
	var d amqp.Delivery
	r.eventually("the message comes", func() bool {
		var ok bool
		d, ok, err = r.raw.Get(queue, false)
		r.must(err)
		return ok
	})
	handle(d)
	got, ok := r.get(dlq)
	if !ok || got.Headers["x-exception-stacktrace"] != trace || got.Headers[letter.HeaderReason] == nil {
		t.Errorf("letter: %v, reason of %d bytes", ok, len(fmt.Sprint(got.Headers[letter.HeaderReason])))
	}
}

var errLong = longError(strings.Repeat("the order cannot be placed; ", 1000))

type longError string

func (e longError) Error() string { return string(e) }
