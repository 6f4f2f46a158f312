package rabbit_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// A message whose headers just fit a frame becomes a letter although ours do not
// fit beside them: kept until it can be published it would be kept for ever.
func TestLetterOfAFullHeaderFrame(t *testing.T) {
	const frame = 131_072
	for name, c := range map[string]struct {
		large   int
		dropped string
	}{
		"our texts are cut":              {frame - 3_000, ""},
		"the largest header is left out": {frame - 200, "large"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			q, dlq := r.queue(nil), r.queue(nil)
			r.send(q, amqp.Publishing{MessageId: "m", Body: []byte("body"), Headers: amqp.Table{
				"large": strings.Repeat("x", c.large), "event_id": "e1", "n": int32(7),
			}})
			pub := r.publisher(rabbit.PublisherConfig{})
			msg := r.receive(r.subscribe(r.subscriber(rabbit.SubscriberConfig{}), q))
			out := msg.CopyWithContext()
			letter.Facts{Attempts: 10, Reason: errors.New(strings.Repeat("why ", 1_000)), Queue: q, Consumer: q}.Write(out.Metadata)
			if err := pub.ToQueues().PublishEach(context.Background(), dlq, out)[0]; err != nil {
				t.Fatal(err)
			}
			msg.Ack()
			got, ok := r.get(dlq)
			if !ok {
				t.Fatal("no letter")
			}
			reason, _ := got.Headers[letter.HeaderReason].(string)
			if !strings.HasPrefix(reason, "why ") || got.Headers["event_id"] != "e1" || got.Headers["n"] != int32(7) || got.MessageId != "m" || string(got.Body) != "body" {
				t.Errorf("letter with reason %.20q, event_id %v", reason, got.Headers["event_id"])
			}
			dropped, _ := got.Headers[letter.HeaderDropped].(string)
			if _, kept := got.Headers["large"]; dropped != c.dropped || kept == (c.dropped != "") {
				t.Errorf("dropped %q, kept %v", dropped, kept)
			}
		})
	}
}
