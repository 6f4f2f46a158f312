package router_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/router"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// Whatever a producer sends is either processed once under its key or becomes a
// letter with a reason, as it was: never lost, never handled in a loop, never a
// message that nobody sent.
func TestBadInput(t *testing.T) {
	r := newRig(t)
	var e events
	calls := make(chan string, 1000)
	stop := r.start(r.box("test", 8, &e), router.Config{Topology: quick(), Concurrency: 8}, func(msg *message.Message) error {
		claim, _ := inbox.Current(msg.Context())
		calls <- claim.Key
		return effect(msg)
	})
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	long := strings.Repeat("m", 255)
	nested := amqp.Table{"a": amqp.Table{"b": []any{int32(1), "x", nil}}}
	death := []any{amqp.Table{"queue": "other", "reason": "rejected", "count": int64(3), "time": at, "exchange": "", "routing-keys": []any{"other"}}}
	cases := []struct {
		name string
		sent amqp.Publishing
		key  string // "" for a letter
		why  string
	}{
		{"no headers at all, no message-id", amqp.Publishing{}, "", "event_id is absent"},
		{"no key", amqp.Publishing{Headers: amqp.Table{"other": "x"}}, "", "message-id is absent"},
		{"empty key", amqp.Publishing{Headers: amqp.Table{"event_id": ""}}, "", "event_id is blank"},
		{"key of spaces and tabs", amqp.Publishing{Headers: amqp.Table{"event_id": " \t "}}, "", "event_id is blank"},
		{"nil key", amqp.Publishing{Headers: amqp.Table{"event_id": nil}}, "", "no text form"},
		{"table as key", amqp.Publishing{Headers: amqp.Table{"event_id": nested}}, "", "no text form"},
		{"array as key", amqp.Publishing{Headers: amqp.Table{"event_id": []any{"a", int32(1)}}}, "", "no text form"},
		{"blank key, then message-id", amqp.Publishing{Headers: amqp.Table{"event_id": " "}, MessageId: "id-blank"}, "id-blank", ""},
		{"nil key, then message-id", amqp.Publishing{Headers: amqp.Table{"event_id": nil}, MessageId: "id-nil"}, "id-nil", ""},
		{"no headers, message-id", amqp.Publishing{MessageId: "id-alone"}, "id-alone", ""},
		{"int key", amqp.Publishing{Headers: amqp.Table{"event_id": int64(4711)}}, "4711", ""},
		{"bool key", amqp.Publishing{Headers: amqp.Table{"event_id": true}}, "true", ""},
		{"time key", amqp.Publishing{Headers: amqp.Table{"event_id": at}}, "2026-01-02T03:04:05Z", ""},
		{"other headers of every type", amqp.Publishing{Headers: amqp.Table{
			"event_id": "all-types", "int": int32(1), "long": int64(2), "float": 1.5, "bool": false, "nil": nil, "time": at,
			"bytes": []byte{0, 255}, "decimal": amqp.Decimal{Scale: 2, Value: 12345}, "table": nested, "array": []any{int32(1), nil}, "x-death": death,
		}}, "all-types", ""},
		{"Watermill's UUID is an int", amqp.Publishing{Headers: amqp.Table{rabbit.UUIDHeader: int32(5), "event_id": "uuid-int"}}, "uuid-int", ""},
		{"Watermill's UUID is a table and nothing else names it", amqp.Publishing{Headers: amqp.Table{rabbit.UUIDHeader: nested}}, "", "message-id is absent"},
		{"empty body", amqp.Publishing{Headers: amqp.Table{"event_id": "empty-body"}}, "empty-body", ""},
		{"message-id of 255 bytes", amqp.Publishing{MessageId: long}, inbox.StoredKey(long), ""},
		{"key with a NUL", amqp.Publishing{Headers: amqp.Table{"event_id": "nul\x00"}}, inbox.StoredKey("nul\x00"), ""},
		{"key that is no UTF-8", amqp.Publishing{Headers: amqp.Table{"event_id": "\xff\xfe"}}, inbox.StoredKey("\xff\xfe"), ""},
	}
	letters, processed := map[string]string{}, map[string]bool{}
	for _, c := range cases {
		c.sent.Type = c.name // finds its letter
		if c.name != "empty body" {
			c.sent.Body = []byte(c.name)
		}
		if c.key == "" {
			letters[c.name] = c.why
		} else {
			processed[c.key] = true
		}
		r.send(c.sent)
	}
	want := len(letters)
	for range want {
		d := r.letter()
		why, ok := letters[d.Type]
		if !ok {
			t.Errorf("letter of %q, a message that was to be processed: %v", d.Type, d.Headers["sekali-reason"])
			continue
		}
		delete(letters, d.Type)
		reason, _ := d.Headers["sekali-reason"].(string)
		r.says(reason, why, "no idempotency key")
		if string(d.Body) != d.Type {
			t.Errorf("the letter of %q has the body %q", d.Type, d.Body)
		}
	}
	r.eventually("all others are processed", func() bool { return e.of(inbox.Processed) == len(processed) })
	stop()
	close(calls)
	for key := range calls {
		if !processed[key] {
			t.Errorf("the handler was called with the key %q: a phantom, or once more", key)
		}
		delete(processed, key)
	}
	if len(letters) > 0 || len(processed) > 0 {
		t.Errorf("missing letters %v, not processed %v", letters, processed)
	}
	if e.total() != len(cases)-want {
		t.Errorf("%d runs of %d messages with a key", e.total(), len(cases)-want)
	}
	r.effects(len(cases) - want)
	r.nothingLeft()
}

// The queue is deleted under its consumer. Where a Topology declares it, it is
// there again; else the service says so, waits, and goes on when an operator has
// made it. No message comes out of it that nobody sent.
func TestQueueDeletedUnderTheConsumer(t *testing.T) {
	for name, topology := range map[string]*rabbit.Topology{"declared": quick(), "by operators": nil} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.declare(queue, rabbit.DeadLetterQueue(queue))
			var e events
			stop := r.start(r.box("test", 4, &e), router.Config{Topology: topology}, effect)
			r.send(event("event-0", "effect-0"))
			r.eventually("the first event took effect", func() bool { return e.of(inbox.Processed) == 1 })
			r.eventually("and was acked", func() bool { return r.ready(queue) == 0 })
			_, err := r.raw.QueueDelete(queue, false, false, false)
			r.must(err)
			r.says(r.logged("Consumer lost"), queue, "deleted")
			if topology == nil {
				// RabbitMQ 4 may at first call a queue that is being deleted an internal error.
				r.logged("Cannot consume", queue, "does not exist")
				r.declare(queue)
			}
			r.logged("Consuming again")
			r.send(event("event-1", "effect-1"))
			r.eventually("the second event took effect", func() bool { return e.of(inbox.Processed) == 2 })
			stop()
			if e.total() != 2 {
				t.Errorf("%d runs of two messages", e.total())
			}
			if n := strings.Count(r.log.String(), "Cannot consume"); n > 50 {
				t.Errorf("%d tries: a hot loop", n)
			}
			r.effects(2)
			r.nothingLeft()
		})
	}
}
