package rabbit_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// everything is a message with all properties and header types that the client
// can read.
func everything() amqp.Publishing {
	at := time.Unix(1782900000, 0)
	return amqp.Publishing{
		ContentType: "application/x-thing", ContentEncoding: "gzip", DeliveryMode: amqp.Transient, Priority: 5,
		CorrelationId: "c", ReplyTo: "r", MessageId: "m", Timestamp: at, Type: "t", AppId: "a",
		Body: []byte{0, 1, 0xff},
		Headers: amqp.Table{
			"nil": nil, "bool": true, "int8": int8(-1), "int16": int16(-2), "int32": int32(-3), "int64": int64(1) << 40,
			"uint8": uint8(1), "uint16": uint16(2), "uint32": uint32(3), "float32": float32(1.5), "float64": 2.5,
			"string": "s", "bytes": []byte{1, 2}, "time": at, "decimal": amqp.Decimal{Scale: 1, Value: 15},
			"array": []any{int32(1), "x", amqp.Table{"in": []any{nil}}}, "table": amqp.Table{"deep": amqp.Table{"er": amqp.Decimal{Value: 1}}},
			"x-death": []any{amqp.Table{"count": int64(1), "reason": "expired", "queue": "other", "time": at}},
			"CC":      []any{"elsewhere"}, "x-delivery-count": int64(3), "event_id": "e1",
		},
	}
}

func TestToQueuesKeepsEveryTypeAndProperty(t *testing.T) {
	r := newRig(t)
	q, target := r.queue(nil), r.queue(nil)
	r.declare("elsewhere", nil)
	sent := everything()
	sent.Expiration = "60000"
	u, err := amqp.ParseURI(r.url)
	r.must(err)
	sent.UserId = u.Username
	r.send(q, sent)

	pub := r.publisher(rabbit.PublisherConfig{})
	msg := r.receive(r.subscribe(r.subscriber(rabbit.SubscriberConfig{}), q))
	copied := msg.CopyWithContext()
	copied.Metadata[letter.HeaderAttempt] = "2"
	copied.Metadata["not ours"] = "left out"
	if err := pub.ToQueues().PublishEach(context.Background(), target, copied)[0]; err != nil {
		t.Fatal(err)
	}
	msg.Ack()

	got, _ := r.get(target)
	want := everything().Headers
	for _, name := range []string{"x-death", "CC", "x-delivery-count"} {
		delete(want, name)
	}
	want[letter.HeaderAttempt] = "2"
	want[letter.HeaderUserID] = u.Username
	want[letter.HeaderExpiration] = "60000"
	want[letter.HeaderHistory] = "2026-07-01T10:00:00Z expired \"other\" 1\n"
	if !reflect.DeepEqual(got.Headers, want) {
		t.Errorf("headers:\n got %#v\nwant %#v", got.Headers, want)
	}
	if got.ContentType != sent.ContentType || got.ContentEncoding != sent.ContentEncoding || got.Priority != 5 || got.CorrelationId != "c" ||
		got.ReplyTo != "r" || got.MessageId != "m" || !got.Timestamp.Equal(sent.Timestamp) || got.Type != "t" || got.AppId != "a" ||
		got.Expiration != "" || got.UserId != "" || got.DeliveryMode != amqp.Persistent || !reflect.DeepEqual(got.Body, sent.Body) {
		t.Errorf("properties or body: %+v", got)
	}
	if n := r.ready("elsewhere"); n != 1 { // the first publish, by the broker's CC
		t.Errorf("%d copies went elsewhere: CC was sent again", n-1)
	}
}

func TestOrdinaryPublishesCarryNoneOfOurHeaders(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	pub := r.publisher(rabbit.PublisherConfig{})
	msg := message.NewMessage("u", []byte("x"))
	maps.Copy(msg.Metadata, map[string]string{
		letter.HeaderAttempt: "3", "x-first-death-queue": "q", "x-delivery-count": "2", "colour": "red",
		rabbit.MetadataContentType: "text/plain", rabbit.MetadataPriority: "4", rabbit.MetadataMessageID: "of another",
		rabbit.MetadataUserID: "somebody", rabbit.MetadataExpiration: "1", rabbit.MetadataTimestamp: "2020-01-01T00:00:00Z",
	})
	r.must(pub.Publish(q, msg))
	d, _ := r.get(q)
	if !reflect.DeepEqual(d.Headers, amqp.Table{"colour": "red", rabbit.UUIDHeader: "u"}) {
		t.Errorf("headers %v", d.Headers)
	}
	if d.ContentType != "text/plain" || d.Priority != 4 || d.MessageId != "u" || d.UserId != "" || d.Expiration != "" || time.Since(d.Timestamp).Abs() > time.Minute {
		t.Errorf("properties %+v", d)
	}
}

func TestUnsafeHeadersAreRefusedBeforeTheWire(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	for name, v := range map[string]any{
		"strings": []string{"v"}, "uint64": uint64(1), "uint": uint(1), "duration": time.Second, "struct": struct{}{},
		"in a table": map[string]any{"x": []string{}}, "in an array": []any{int32(1), uint64(2)},
	} {
		pub := r.publisher(rabbit.PublisherConfig{Marshaler: typed{name: v}})
		if err := pub.Publish(q, message.NewMessage("u", nil)); !errors.Is(err, rabbit.ErrBadHeader) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	pub := r.publisher(rabbit.PublisherConfig{Marshaler: typed{"n": int(1 << 40), "m": map[string]any{"k": 1}}})
	r.must(pub.Publish(q, message.NewMessage("u", nil)))
	if d, _ := r.get(q); d.Headers["n"] != int64(1<<40) || !reflect.DeepEqual(d.Headers["m"], amqp.Table{"k": int64(1)}) {
		t.Errorf("int lost its value: %v", d.Headers)
	}
}

// typed is somebody's own marshaler.
type typed amqp.Table

func (m typed) Marshal(msg *message.Message) (amqp.Publishing, error) {
	return amqp.Publishing{Headers: amqp.Table(m), MessageId: msg.UUID}, nil
}

func (typed) Unmarshal(d amqp.Delivery) (*message.Message, error) {
	switch d.MessageId {
	case "panics":
		panic("cannot read this")
	case "nothing":
		return nil, nil
	}
	return nil, errors.New("cannot read this")
}

func TestOwnMarshalerThatFailsDoesNotStopTheMessage(t *testing.T) {
	r := newRig(t)
	q := r.queue(nil)
	msgs := r.subscribe(r.subscriber(rabbit.SubscriberConfig{
		Marshaler: typed{}, OrderBy: func(*message.Message) string { panic("no lane") },
	}), q)
	for _, id := range []string{"errs", "panics", "nothing"} {
		r.send(q, amqp.Publishing{MessageId: id})
		msg := r.receive(msgs)
		if msg.UUID != id {
			t.Errorf("got %q in place of %q", msg.UUID, id)
		}
		msg.Ack()
	}
}
