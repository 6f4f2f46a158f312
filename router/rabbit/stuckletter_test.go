package rabbit_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/router/rabbit"
)

// A letter that no queue takes: Handle keeps the message unsettled and repeats
// the publish, with growing waits and without running the handler again. It gets
// through when there is a place for it.
func TestHandleKeepsAMessageWhoseLetterIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(r *rig, dlq string)
		mend  func(r *rig, dlq string)
	}{
		"the DLQ was deleted": {
			spoil: func(r *rig, dlq string) { r.remove(dlq) },
			mend:  func(r *rig, dlq string) { r.declare(dlq, nil) },
		},
		"the DLQ is full": {
			spoil: func(r *rig, dlq string) {
				r.remove(dlq)
				r.declare(dlq, amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
				r.send(dlq, amqp.Publishing{MessageId: "older"})
			},
			mend: func(r *rig, dlq string) {
				if d, ok := r.get(dlq); !ok || d.MessageId != "older" {
					r.Errorf("the letter that was there: %v, %q", ok, d.MessageId)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			box, db := r.shop()
			q := r.queue(nil)
			dlq := rabbit.DeadLetterQueue(q)
			r.declare(dlq, nil)
			var calls atomic.Int64
			log := &lines{}
			handle, err := rabbit.Handle(context.Background(), box, rabbit.HandleConfig{
				Queue: q, Letters: r.publisher(rabbit.PublisherConfig{}), MaxAttempts: 2, Logger: log.logger(),
			}, func(ctx context.Context, d amqp.Delivery) error {
				calls.Add(1)
				return errors.Join(write(ctx, d), errors.New("no stock"))
			})
			r.must(err)
			c.spoil(r, dlq)
			loop, ended := r.consume(q, handle)
			r.send(q, amqp.Publishing{MessageId: "m", Body: []byte("m")})
			const refused = "letter could not be published"
			r.eventually("a first refusal", func() bool { return log.count(refused) > 0 })
			start := time.Now()
			r.eventually("five more", func() bool { return log.count(refused) >= 6 })
			// Five waits of 200 ms to 3.2 s, by chance half of that.
			if took := time.Since(start); took < 100*time.Millisecond {
				t.Errorf("six tries in %s: a hot loop", took)
			}
			if n := calls.Load(); n != 2 {
				t.Errorf("%d calls of the handler, want the two attempts", n)
			}
			state, err := r.raw.QueueDeclarePassive(q, true, false, false, false, nil)
			r.must(err)
			if state.Messages != 0 || state.Consumers != 1 {
				t.Errorf("%d messages were put back, %d consumers", state.Messages, state.Consumers)
			}
			c.mend(r, dlq)
			d, ok := r.get(dlq)
			if reason, _ := d.Headers["sekali-reason"].(string); !ok || d.MessageId != "m" || !strings.Contains(reason, "no stock") {
				t.Errorf("letter %v, %q: %q", ok, d.MessageId, reason)
			}
			r.must(loop.Cancel("loop", false))
			<-ended
			r.must(loop.Close())
			if n, left := effects(r, db), r.ready(q); n != 0 || left != 0 || calls.Load() != 2 {
				t.Errorf("%d effects, %d messages left, %d calls", n, left, calls.Load())
			}
		})
	}
}

// A process that ends while its letter is refused leaves the message in the
// queue.
func TestMessageOfARefusedLetterGoesBackAtTheEnd(t *testing.T) {
	r := newRig(t)
	box, _ := r.shop()
	q := r.queue(nil)
	dlq := rabbit.DeadLetterQueue(q)
	r.declare(dlq, nil)
	log := &lines{}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	handle, err := rabbit.Handle(ctx, box, rabbit.HandleConfig{Queue: q, Letters: r.publisher(rabbit.PublisherConfig{}), MaxAttempts: 1, Logger: log.logger()},
		func(context.Context, amqp.Delivery) error { return errors.New("no stock") })
	r.must(err)
	r.remove(dlq)
	loop, ended := r.consume(q, handle)
	r.send(q, amqp.Publishing{MessageId: "m", Body: []byte("m")})
	r.eventually("the letter is refused", func() bool { return log.count("letter could not be published") > 0 })
	r.must(loop.Cancel("loop", false))
	cancel()
	<-ended
	r.must(loop.Close())
	r.eventually("the message is back", func() bool { return r.ready(q) == 1 })
}

// lines counts what slog wrote.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}
