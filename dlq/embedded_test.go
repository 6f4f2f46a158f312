package dlq_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	mill "github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// The embedded default has the whole circle: letters of the stack and of
// Watermill's own PoisonQueue, in-process broker, SQLite.
func TestTheWholeCircleEmbedded(t *testing.T) {
	for _, kind := range []string{"stack", "poison queue"} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t, databases[3], dlq.Config{})
			ps := gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 64}, watermill.NopLogger{})
			defer ps.Close()
			rt, err := message.NewRouter(message.RouterConfig{CloseTimeout: 3 * time.Second}, watermill.NopLogger{})
			r.must(err)
			var broken atomic.Bool
			var effects atomic.Int64
			broken.Store(true)
			h := rt.AddConsumerHandler("stock", "topic", ps, func(*message.Message) error {
				if broken.Load() {
					return inbox.Permanent(errors.New("no stock"))
				}
				effects.Add(1)
				return nil
			})
			c := middleware.Config{Consumer: "stock", Queue: "topic"}
			if kind == "stack" {
				stack, err := middleware.NewStack(r.box, middleware.Trust(ps), middleware.StackConfig{Config: c, DeadLetterTopic: func(string) string { return "dead" }})
				r.must(err)
				rt.AddPlugin(stack.Plugin)
				h.AddMiddleware(stack.Middleware)
			} else {
				once, err := middleware.NewIdempotent(r.box, c)
				r.must(err)
				poison, err := mill.PoisonQueue(ps, "dead")
				r.must(err)
				rt.AddPlugin(once.Plugin)
				h.AddMiddleware(poison, once.Middleware)
			}
			rt.AddConsumerHandler("letters", "dead", ps, r.letters.Collector(dlq.CollectorConfig{}))
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- rt.Run(ctx) }()
			defer func() { cancel(); <-done }()
			<-rt.Running()
			const n = 5
			for i := range n {
				msg := message.NewMessage(fmt.Sprintf("uuid-%d", i), message.Payload("x"))
				msg.Metadata["event_id"] = fmt.Sprintf("e%d", i)
				r.must(ps.Publish("topic", msg))
			}
			wait := func(what string, f func() bool) {
				t.Helper()
				tick := time.NewTicker(10 * time.Millisecond)
				defer tick.Stop()
				limit := time.After(patience)
				for !f() {
					select {
					case <-tick.C:
					case <-limit:
						t.Fatalf("%s: %v", what, r.states())
					}
				}
			}
			wait("collected", func() bool { return r.count(dlq.Filter{Queue: "topic", Consumer: "stock"}) == n })
			cfg := all()
			if kind != "stack" {
				// A poison queue does not say when the attempt held its claim.
				cfg.AcceptUnknown, cfg.Note = true, note
			}
			broken.Store(false)
			run, err := r.letters.Redrive(t.Context(), middleware.Trust(ps), cfg)
			r.must(err)
			if run.Counts.Sent != n {
				t.Fatalf("%+v", run.Counts)
			}
			wait("processed", func() bool {
				f, err := r.letters.Fates(t.Context(), run.ID)
				r.must(err)
				return f.Processed == n
			})
			if effects.Load() != n {
				t.Errorf("%d effects", effects.Load())
			}
			if c := r.count(dlq.Filter{}); c != n {
				t.Errorf("%d letters", c)
			}
		})
	}
}
