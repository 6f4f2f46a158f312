package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/router/rabbit"
)

func TestMessageArrivesAndIsAcked(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	pub, sub := r.publisher(rabbit.PublisherConfig{}), r.subscriber(rabbit.SubscriberConfig{})
	out := message.NewMessage("u1", []byte("hello"))
	out.Metadata["colour"] = "red"
	r.must(pub.Publish(q, out))

	msg := r.receive(r.subscribe(sub, q))
	if !msg.Equals(want(out, map[string]string{rabbit.MetadataMessageID: "u1"}, msg)) {
		t.Errorf("got %q %v %q", msg.UUID, msg.Metadata, msg.Payload)
	}
	if name, _ := inbox.ConsumerName(msg.Context()); name != q {
		t.Errorf("consumer in the context is %q, want the queue %q", name, q)
	}
	msg.Ack()
	r.must(sub.Close())
	if n := r.ready(q); n != 0 {
		t.Errorf("%d messages are left after the ack", n)
	}
	if s := sub.Stats(); s.Acked != 1 || s.Late != 0 {
		t.Errorf("stats: %+v", s)
	}
}

// want adds to the message that was sent what a receiver sees besides.
func want(sent *message.Message, more map[string]string, got *message.Message) *message.Message {
	w := sent.Copy()
	maps.Copy(w.Metadata, more)
	for _, k := range []string{rabbit.MetadataTimestamp, rabbit.MetadataDeliveryMode} {
		w.Metadata[k] = got.Metadata[k]
	}
	return w
}

func TestConcurrencyIsTheNumberOfUnsettledMessages(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	for i := range 10 {
		r.send(q, amqp.Publishing{MessageId: fmt.Sprint(i)})
	}
	sub := r.subscriber(rabbit.SubscriberConfig{Concurrency: 3})
	msgs := r.subscribe(sub, q)
	held := []*message.Message{r.receive(msgs), r.receive(msgs), r.receive(msgs)}
	select {
	case <-msgs:
		t.Fatal("a fourth message was handed out while three are unsettled")
	case <-time.After(300 * time.Millisecond):
	}
	held[1].Ack()
	r.receive(msgs).Ack()
	for _, m := range held {
		m.Ack()
	}
	for range 6 {
		r.receive(msgs).Ack()
	}
}

func TestOneAtATimeKeepsTheQueuesOrder(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	for i := range 50 {
		r.send(q, amqp.Publishing{MessageId: fmt.Sprint(i)})
	}
	msgs := r.subscribe(r.subscriber(rabbit.SubscriberConfig{RequeueMin: time.Millisecond}), q)
	nacked := false
	for i := 0; i < 50; i++ {
		msg := r.receive(msgs)
		if msg.UUID != fmt.Sprint(i) {
			t.Fatalf("message %q came in place of %d", msg.UUID, i)
		}
		if i == 20 && !nacked {
			nacked = true
			msg.Nack()
			i--
			continue
		}
		msg.Ack()
	}
}

func TestMessagesOfOneLaneRunOneAfterTheOther(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	const n = 60
	for i := range n {
		r.send(q, amqp.Publishing{MessageId: fmt.Sprint(i), Headers: amqp.Table{"lane": fmt.Sprint(i % 3)}})
	}
	msgs := r.subscribe(r.subscriber(rabbit.SubscriberConfig{
		Concurrency: 3, Prefetch: 30,
		OrderBy: func(m *message.Message) string { return m.Metadata["lane"] },
	}), q)
	next, held := map[string]int{"0": 0, "1": 1, "2": 2}, map[string]bool{}
	for range n / 3 {
		batch := []*message.Message{r.receive(msgs), r.receive(msgs), r.receive(msgs)}
		clear(held)
		for _, m := range batch {
			lane := m.Metadata["lane"]
			if held[lane] {
				t.Fatalf("two messages of lane %s at once", lane)
			}
			held[lane] = true
			if m.UUID != fmt.Sprint(next[lane]) {
				t.Fatalf("lane %s: message %s came in place of %d", lane, m.UUID, next[lane])
			}
			next[lane] += 3
		}
		for _, m := range batch {
			m.Ack()
		}
	}
}

func TestNackPutsBackWithoutAHotLoop(t *testing.T) {
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t)
			q := r.queue(amqp.Table{"x-queue-type": kind})
			r.send(q, amqp.Publishing{MessageId: "bad"})
			sub := r.subscriber(rabbit.SubscriberConfig{Concurrency: 4})
			msgs := r.subscribe(sub, q)
			tries := 0
			for end := time.After(3 * time.Second); ; {
				select {
				case m := <-msgs:
					tries++
					m.Nack()
					continue
				case <-end:
				}
				break
			}
			if tries < 3 || tries > 12 {
				t.Errorf("%d tries in 3 s: want a handful", tries)
			}
			r.must(sub.Close())
			r.eventually("the nacked message is in the queue", func() bool { return r.ready(q) == 1 })
		})
	}
}

func TestStrangeMessagesReachTheHandlerOnce(t *testing.T) {
	death := []any{amqp.Table{"count": int64(1), "reason": "rejected", "queue": "q", "time": time.Unix(1700000000, 0), "exchange": "", "routing-keys": []any{"q"}}}
	headers := map[string]amqp.Table{
		"none":         nil,
		"int":          {"h": int32(7)},
		"bool":         {"h": true},
		"nil":          {"h": nil},
		"time":         {"h": time.Unix(1700000000, 0)},
		"float":        {"h": 1.5},
		"decimal":      {"h": amqp.Decimal{Scale: 2, Value: -5}},
		"bytes":        {"h": []byte{0xff, 0x00}},
		"small ints":   {"a": int8(-1), "b": uint8(200), "c": int16(-3), "d": uint16(4), "e": uint32(5), "f": int64(1) << 40},
		"nested table": {"h": amqp.Table{"deeper": amqp.Table{"list": []any{int64(1), "x", amqp.Table{"k": nil}}}}},
		"x-death":      {"x-death": death, "x-first-death-queue": "q"},
		"uuid a table": {rabbit.UUIDHeader: amqp.Table{"a": "b"}},
		"uuid an int":  {rabbit.UUIDHeader: int64(5)},
		"uuid empty":   {rabbit.UUIDHeader: ""},
		"empty name":   {"": "x"},
	}
	r := newRig(t)
	q := r.queue(nil)
	sub := r.subscriber(rabbit.SubscriberConfig{})
	msgs := r.subscribe(sub, q)
	for name, table := range headers {
		r.send(q, amqp.Publishing{MessageId: "id", Headers: table, Body: []byte(name)})
		msg := r.receive(msgs)
		if string(msg.Payload) != name || msg.UUID != "id" {
			t.Fatalf("%s: got %q with UUID %q", name, msg.Payload, msg.UUID)
		}
		d, ok := letter.FromContext(msg.Context())
		if !ok || len(d.Headers) != len(table) {
			t.Errorf("%s: delivery in the context has headers %v, want those of %v", name, d.Headers, table)
		}
		msg.Ack()
	}
	long := strings.Repeat("m", 255)
	r.send(q, amqp.Publishing{MessageId: long})
	msg := r.receive(msgs)
	if msg.UUID != long || len(msg.Payload) != 0 {
		t.Errorf("message-id of 255 bytes and empty body: got %d bytes, payload %q", len(msg.UUID), msg.Payload)
	}
	msg.Ack()
	r.send(q, amqp.Publishing{Body: []byte("anonymous")})
	if msg = r.receive(msgs); msg.UUID != "" {
		t.Errorf("UUID %q was invented", msg.UUID)
	}
	msg.Ack()
	r.must(sub.Close())
	if s := sub.Stats(); s.Delivered != int64(len(headers))+2 || s.Requeued != 0 {
		t.Errorf("each message must come once: %+v", s)
	}
}

func TestDeletedQueueGivesNoPhantomAndNoHotLoop(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	sub := r.subscriber(rabbit.SubscriberConfig{Concurrency: 4})
	msgs := r.subscribe(sub, q)
	_, err := r.raw.QueueDelete(q, false, false, false)
	r.must(err)
	r.eventually("the missing queue is named in the log", func() bool { return r.log.count("Cannot consume, trying again") > 0 })
	if text := r.log.text(); !strings.Contains(text, q) || !strings.Contains(text, rabbit.ErrNoQueue.Error()) {
		t.Errorf("the log does not say what to do:\n%s", text)
	}
	select {
	case m := <-msgs:
		t.Fatalf("a phantom message was handed out: %+v", m)
	case <-time.After(2 * time.Second):
	}
	if n := r.log.count("Cannot consume"); n > 15 {
		t.Errorf("%d tries in 2 s", n)
	}
	r.declare(q, nil)
	r.send(q, amqp.Publishing{MessageId: "after"})
	msg := r.receive(msgs)
	if msg.UUID != "after" {
		t.Errorf("got %q", msg.UUID)
	}
	msg.Ack()
}

func TestMissingQueueIsAnErrorOfSubscribe(t *testing.T) {
	r := newRig(t)
	sub := r.subscriber(rabbit.SubscriberConfig{})
	_, err := sub.Subscribe(context.Background(), "nowhere")
	if !errors.Is(err, rabbit.ErrNoQueue) || !strings.Contains(err.Error(), `"nowhere"`) {
		t.Errorf("got %v", err)
	}
}

func TestRegisterRunsOnceBeforeTheFirstConsume(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	r.send(q, amqp.Publishing{})
	var calls atomic.Int32
	refuse := errors.New("name is taken")
	sub := r.subscriber(rabbit.SubscriberConfig{Register: func(_ context.Context, queue string) error {
		if queue != q {
			t.Errorf("registered %q", queue)
		}
		if calls.Add(1) == 1 {
			return refuse
		}
		return nil
	}})
	if _, err := sub.Subscribe(context.Background(), q); !errors.Is(err, refuse) {
		t.Fatalf("Subscribe returned %v, want the hook's error", err)
	}
	msgs := r.subscribe(sub, q)
	r.subscribe(sub, q)
	r.receive(msgs).Ack()
	if n := calls.Load(); n != 2 {
		t.Errorf("hook ran %d times, want the refused one and one more", n)
	}
}

func TestConnectionLossRedeliversAndLateSettlesDoNothing(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	for i := range 3 {
		r.send(q, amqp.Publishing{MessageId: fmt.Sprint(i)})
	}
	sub := r.subscriber(rabbit.SubscriberConfig{Concurrency: 9, Prefetch: 9})
	msgs := r.subscribe(sub, q)
	var old []*message.Message
	for range 3 {
		old = append(old, r.receive(msgs))
	}
	r.cut(rabbit.Consume)
	r.eventually("the loss is noticed", func() bool { return r.log.count("Consumer lost") > 0 })
	for i := range 3 {
		r.send(q, amqp.Publishing{MessageId: fmt.Sprint(3 + i)})
	}
	// The three come again on the new channel, and three more; they are held
	// unsettled, under the same tags that the old ones have.
	var again []*message.Message
	for range 5 {
		again = append(again, r.receive(msgs))
	}
	for _, m := range old {
		m.Ack()
	}
	again = append(again, r.receive(msgs))
	r.eventually("late settles are counted", func() bool { return sub.Stats().Late == 3 })
	seen := map[string]bool{}
	for _, m := range again {
		seen[m.UUID] = true
	}
	if len(seen) != 6 {
		t.Fatalf("redelivered %v, want all six", seen)
	}
	for _, m := range again {
		m.Nack()
	}
	r.must(sub.Close())
	if n := r.back(q, 6); n != 6 {
		t.Errorf("%d messages are in the queue: a late ack has settled another delivery", n)
	}
}

func TestSuspiciousDeliveriesRunAloneAfterAnUncleanStart(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	for i := range 4 {
		r.send(q, amqp.Publishing{MessageId: fmt.Sprint("old", i)})
	}
	// A reader that dies with four in hand.
	ch := r.channel()
	for range 4 {
		_, _, err := ch.Get(q, false)
		r.must(err)
	}
	r.must(ch.Close())
	r.eventually("the four are back", func() bool { return r.ready(q) == 4 })
	for i := range 12 {
		r.send(q, amqp.Publishing{MessageId: fmt.Sprint("new", i)})
	}
	sub := r.subscriber(rabbit.SubscriberConfig{Concurrency: 6})
	msgs := r.subscribe(sub, q)
	for i := range 4 {
		msg := r.receive(msgs)
		if msg.UUID != fmt.Sprint("old", i) {
			t.Fatalf("got %q", msg.UUID)
		}
		if n := r.ready(q); n != 15-i {
			t.Errorf("%d messages wait in the queue, want all other %d", n, 15-i)
		}
		select {
		case other := <-msgs:
			t.Fatalf("%q was handed out beside a suspicious one", other.UUID)
		case <-time.After(100 * time.Millisecond):
		}
		msg.Ack()
	}
	var held []*message.Message
	for range 6 {
		held = append(held, r.receive(msgs))
	}
	for _, m := range held {
		m.Ack()
	}
	for range 6 {
		r.receive(msgs).Ack()
	}
	r.must(sub.Close())
	if s := sub.Stats(); s.Delivered != 16 || s.Late != 0 || s.Reopened != 0 {
		t.Errorf("stats %+v", s)
	}
}
