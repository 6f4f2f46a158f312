package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/sqliteinbox"
)

// A run that was undone produces nothing: another process committed the message
// before it could run again with its group, and this one finds a duplicate.
func TestAnUndoneRunProducesNothing(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	outcomes := map[string]inbox.Outcome{}
	hooks := inbox.Hooks{Done: func(_ context.Context, e inbox.Event) {
		mu.Lock()
		defer mu.Unlock()
		outcomes[e.Claim.Key] = e.Outcome
	}}
	must(t, w.box.Register(t.Context(), inbox.Consumer{Name: consumer}))
	process := func(b *inbox.Inbox, key string, h message.HandlerFunc) (*message.Message, []*message.Message, error) {
		i, err := middleware.NewIdempotent(b, middleware.Config{Consumer: consumer, PublishAfterCommit: true})
		must(t, err)
		msg := message.NewMessage(key, nil)
		msg.SetContext(t.Context())
		produced, err := i.Middleware(h)(msg)
		return msg, produced, err
	}
	produce := func(msg *message.Message) ([]*message.Message, error) {
		msg.Metadata.Set("seen", "yes")
		return []*message.Message{message.NewMessage("produced", nil)}, effect(msg.Context(), msg.UUID)
	}
	for round := 0; ; round++ {
		key := fmt.Sprint("both-", round)
		// A new one: after a few groups that failed it would run all members alone.
		grouping, err := sqliteinbox.Open(t.Context(), w.db, sqliteinbox.Config{Config: inbox.Config{Service: "test", Group: 8, Hooks: hooks}})
		must(t, err)
		must(t, grouping.Register(t.Context(), inbox.Consumer{Name: consumer}))
		inside, gate := make(chan struct{}), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _, _ = process(grouping, fmt.Sprint("first-", round), func(*message.Message) ([]*message.Message, error) {
				close(inside)
				<-gate
				return nil, nil
			})
		})
		<-inside
		var here, there, seen int
		var msg *message.Message
		wg.Go(func() {
			m, produced, err := process(grouping, key, produce)
			if err != nil {
				t.Errorf("here: %v", err)
			}
			msg, here = m, len(produced)
		})
		waiting := func(n int) {
			for grouping.Waiting(consumer) < n && t.Context().Err() == nil {
				runtime.Gosched()
			}
		}
		waiting(1)
		var once sync.Once
		wg.Go(func() {
			_, _, _ = process(grouping, fmt.Sprint("fails-", round), func(msg *message.Message) ([]*message.Message, error) {
				once.Do(func() {
					wg.Go(func() {
						_, produced, err := process(w.box, key, produce)
						if err != nil {
							t.Errorf("there: %v", err)
						}
						there = len(produced)
					})
				})
				return nil, errors.Join(effect(msg.Context(), msg.UUID), errors.New("no"))
			})
		})
		waiting(2)
		close(gate)
		wg.Wait()
		if msg.Metadata.Get("seen") == "yes" {
			seen++
		}
		if here+there != 1 || seen != here || w.effects(key) != 1 {
			t.Fatalf("%d messages of two processes, %d here; metadata of %d runs; %d effects", here+there, here, seen, w.effects(key))
		}
		mu.Lock()
		out := outcomes[key]
		mu.Unlock()
		if out == inbox.Duplicate {
			return
		}
	}
}

// What a handler returns beside Skip is not taken.
func TestSkipProducesNothing(t *testing.T) {
	w := newWorld(t)
	must(t, w.box.Register(t.Context(), inbox.Consumer{Name: consumer}))
	i, err := middleware.NewIdempotent(w.box, middleware.Config{Consumer: consumer, PublishAfterCommit: true})
	must(t, err)
	msg := message.NewMessage("skipped", nil)
	produced, err := i.Middleware(func(msg *message.Message) ([]*message.Message, error) {
		msg.Metadata.Set("seen", "yes")
		return []*message.Message{message.NewMessage("produced", nil)}, errors.Join(effect(msg.Context(), "skipped"), inbox.Skip)
	})(msg)
	if err != nil || len(produced) > 0 || msg.Metadata.Get("seen") != "" || w.effects("skipped") != 0 {
		t.Errorf("produced %d messages, metadata %v, %d effects, %v", len(produced), msg.Metadata, w.effects("skipped"), err)
	}
}
