package rabbittest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// Ours against the bare client and against watermill-amqp, in turns, so that
// what else the machine does weighs on all of them; each figure is the median of
// the rounds. Consuming is consume and ack, nothing else; publishing is persistent
// and confirmed.
//
//	go test -run '^$' -bench AgainstOthers ./rabbittest
func BenchmarkAgainstOthers(b *testing.B) {
	const rounds = 5
	url := testservices.NewVirtualHost(b)
	contests := []contest{
		{"consume/bare", 20_000, consumeBare},
		{"consume/ours", 20_000, consumeOurs},
		{"consume/watermill-amqp", 2_000, consumeTheirs},
		{"publish/bare, one by one", 1_000, publishBare},
		{"publish/ours, one by one", 1_000, publishOneByOne},
		{"publish/ours, batches", 10_000, publishBatches},
		{"publish/watermill-amqp", 1_000, publishTheirs},
	}
	for range b.N {
		rates := map[string][]float64{}
		for range rounds {
			for _, c := range contests {
				q := testservices.Name(b)
				rates[c.name] = append(rates[c.name], float64(c.n)/c.run(b, url, q, c.n).Seconds())
				remove(b, url, q)
			}
		}
		median := map[string]float64{}
		for _, c := range contests {
			slices.Sort(rates[c.name])
			median[c.name] = rates[c.name][rounds/2]
			b.Logf("%-26s %8.0f msg/s  (%.0f to %.0f)", c.name, median[c.name], rates[c.name][0], rates[c.name][rounds-1])
		}
		for _, r := range []struct{ metric, ours, other string }{
			{"consume:bare", "consume/ours", "consume/bare"},
			{"consume:watermill-amqp", "consume/ours", "consume/watermill-amqp"},
			{"publish:watermill-amqp", "publish/ours, batches", "publish/watermill-amqp"},
			{"publish1:watermill-amqp", "publish/ours, one by one", "publish/watermill-amqp"},
		} {
			b.ReportMetric(median[r.ours]/median[r.other], r.metric)
		}
	}
}

// contest is one way to move n messages through a queue of its own.
type contest struct {
	name string
	n    int
	run  func(b *testing.B, url, queue string, n int) time.Duration
}

// onChannel runs f on a plain client's channel.
func onChannel(b *testing.B, url string, f func(ch *amqp091.Channel) error) {
	b.Helper()
	conn, err := amqp091.Dial(url)
	mustB(b, err)
	defer conn.Close()
	ch, err := conn.Channel()
	mustB(b, err)
	mustB(b, f(ch))
}

func declare(b *testing.B, url, queue string) {
	b.Helper()
	onChannel(b, url, func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
		return err
	})
}

func remove(b *testing.B, url, queue string) {
	b.Helper()
	onChannel(b, url, func(ch *amqp091.Channel) error {
		_, err := ch.QueueDelete(queue, false, false, false)
		return err
	})
}

func ours(b *testing.B, url string) *rabbit.Connection {
	b.Helper()
	conn, err := rabbit.NewConnection(url, rabbit.ConnectionConfig{})
	mustB(b, err)
	return conn
}

func batch(n int) []*message.Message {
	msgs := make([]*message.Message, n)
	for i := range msgs {
		msgs[i] = message.NewMessage(fmt.Sprint(i), make([]byte, 200))
	}
	return msgs
}

func consumeBare(b *testing.B, url, queue string, n int) (took time.Duration) {
	b.Helper()
	fillN(b, url, queue, n)
	onChannel(b, url, func(ch *amqp091.Channel) error {
		mustB(b, ch.Qos(40, 0, false)) // as Concurrency 32 has it
		start := time.Now()
		deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
		mustB(b, err)
		for range n {
			d := <-deliveries
			mustB(b, d.Ack(false))
		}
		took = time.Since(start)
		return nil
	})
	return took
}

func consumeOurs(b *testing.B, url, queue string, n int) time.Duration {
	b.Helper()
	fillN(b, url, queue, n)
	conn := ours(b, url)
	defer conn.Close()
	sub, err := rabbit.NewSubscriber(conn, rabbit.SubscriberConfig{Concurrency: 32})
	mustB(b, err)
	defer sub.Close()
	return drainN(b, sub, queue, n)
}

func consumeTheirs(b *testing.B, url, queue string, n int) time.Duration {
	b.Helper()
	fillN(b, url, queue, n)
	sub, err := wamqp.NewSubscriber(wamqp.NewDurableQueueConfig(url), watermill.NopLogger{})
	mustB(b, err)
	defer sub.Close()
	return drainN(b, sub, queue, n)
}

func drainN(b *testing.B, sub message.Subscriber, queue string, n int) time.Duration {
	b.Helper()
	start := time.Now()
	msgs, err := sub.Subscribe(context.Background(), queue)
	mustB(b, err)
	for range n {
		(<-msgs).Ack()
	}
	return time.Since(start)
}

func publishBare(b *testing.B, url, queue string, n int) (took time.Duration) {
	b.Helper()
	declare(b, url, queue)
	onChannel(b, url, func(ch *amqp091.Channel) error {
		mustB(b, ch.Confirm(false))
		start := time.Now()
		for range n {
			c, err := ch.PublishWithDeferredConfirm("", queue, true, false, amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: make([]byte, 200)})
			mustB(b, err)
			c.Wait()
		}
		took = time.Since(start)
		return nil
	})
	return took
}

func publishOneByOne(b *testing.B, url, queue string, n int) time.Duration {
	b.Helper()
	return publishOurs(b, url, queue, n, 1)
}

func publishBatches(b *testing.B, url, queue string, n int) time.Duration {
	b.Helper()
	return publishOurs(b, url, queue, n, 100)
}

func publishOurs(b *testing.B, url, queue string, n, size int) time.Duration {
	b.Helper()
	declare(b, url, queue)
	conn := ours(b, url)
	defer conn.Close()
	pub, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	mustB(b, err)
	defer pub.Close()
	mustB(b, pub.Publish(queue, batch(1)...)) // theirs is connected, too, when it begins
	msgs := batch(n)
	start := time.Now()
	for chunk := range slices.Chunk(msgs, size) {
		mustB(b, pub.Publish(queue, chunk...))
	}
	return time.Since(start)
}

func publishTheirs(b *testing.B, url, queue string, n int) time.Duration {
	b.Helper()
	declare(b, url, queue)
	config := wamqp.NewDurableQueueConfig(url)
	config.Publish.ConfirmDelivery = true
	config.Publish.ChannelPoolSize = 1 // its fast way: without, each message gets a new channel
	pub, err := wamqp.NewPublisher(config, watermill.NopLogger{})
	mustB(b, err)
	defer pub.Close()
	msgs := batch(n)
	start := time.Now()
	for chunk := range slices.Chunk(msgs, 100) {
		mustB(b, pub.Publish(queue, chunk...))
	}
	return time.Since(start)
}

// fillN puts n messages into a plain durable queue.
func fillN(b *testing.B, url, queue string, n int) {
	b.Helper()
	declare(b, url, queue)
	conn := ours(b, url)
	defer conn.Close()
	pub, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	mustB(b, err)
	defer pub.Close()
	mustB(b, pub.Publish(queue, batch(n)...))
}
