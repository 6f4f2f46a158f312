package rabbit_test

import (
	"context"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/router/rabbit"
)

func fill(r *rig, q string, n int) {
	r.Helper()
	pub := r.publisher(rabbit.PublisherConfig{})
	msgs := make([]*message.Message, n)
	for i := range msgs {
		msgs[i] = message.NewMessage("0123456789abcdef", make([]byte, 200))
	}
	r.must(pub.Publish(q, msgs...))
}

// Consume and ack, nothing else: the bare client is the baseline.
func BenchmarkConsume(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		r := newRig(b)
		q := r.queue(nil)
		fill(r, q, b.N)
		r.must(r.raw.Qos(40, 0, false))
		b.ResetTimer()
		deliveries, err := r.raw.Consume(q, "", false, false, false, false, nil)
		r.must(err)
		for range b.N {
			d := <-deliveries
			r.must(d.Ack(false))
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	})
	for name, config := range map[string]rabbit.SubscriberConfig{"subscriber-32": {Concurrency: 32}, "subscriber-1": {}} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b)
			q := r.queue(nil)
			fill(r, q, b.N)
			sub := r.subscriber(config)
			b.ResetTimer()
			msgs := r.subscribe(sub, q)
			for range b.N {
				(<-msgs).Ack()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

// Every message confirmed.
func BenchmarkPublish(b *testing.B) {
	b.Run("bare-one-by-one", func(b *testing.B) {
		r := newRig(b)
		q := r.queue(nil)
		r.must(r.raw.Confirm(false))
		for b.Loop() {
			c, err := r.raw.PublishWithDeferredConfirm("", q, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: make([]byte, 200)})
			r.must(err)
			c.Wait()
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	})
	b.Run("batches-of-100", func(b *testing.B) {
		r := newRig(b)
		q := r.queue(nil)
		pub := r.publisher(rabbit.PublisherConfig{})
		batch := numbered(100)
		b.ResetTimer()
		for n := 0; n < b.N; n += 100 {
			for _, err := range pub.PublishEach(context.Background(), q, batch...) {
				r.must(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	})
	b.Run("one-by-one-from-32", func(b *testing.B) {
		r := newRig(b)
		q := r.queue(nil)
		pub := r.publisher(rabbit.PublisherConfig{})
		b.SetParallelism(16)
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				r.must(pub.Publish(q, message.NewMessage("u", make([]byte, 200))))
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	})
}
