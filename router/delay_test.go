package router_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/router"
)

// Delayed retry from end to end: a message that fails waits in a retry queue, not
// in the way of others, comes back with its attempts counted, and is processed
// once.
func TestFailedMessageComesBackAndTakesEffect(t *testing.T) {
	r := newRig(t)
	var e events
	var mu sync.Mutex
	attempts := map[string][]int{}
	stop := r.start(r.box("test", 4, &e), router.Config{Topology: quick()}, func(msg *message.Message) error {
		mu.Lock()
		key := msg.Metadata["event_id"]
		attempts[key] = append(attempts[key], inbox.Attempt(msg.Context()))
		n := len(attempts[key])
		mu.Unlock()
		if err := effect(msg); err != nil {
			return err
		}
		if n < 4 {
			return errHandler // after its write, which must be undone
		}
		return nil
	})
	r.sendEvents(5, 1)
	r.eventually("all events took effect", func() bool { return e.of(inbox.Processed) == 5 })
	// Copies of what came back in the end.
	r.sendEvents(5, 1)
	r.eventually("the copies are settled", func() bool { return e.of(inbox.Duplicate) == 5 })
	stop()
	for key, seen := range attempts {
		if fmt.Sprint(seen) != "[1 2 3 4]" {
			t.Errorf("attempts of %s: %v, want 1 to 4", key, seen)
		}
	}
	r.effects(5)
	r.nothingLeft()
}

// A message that fails for good is a letter after its attempts, with its reason
// and all that it had; the letters of it are one.
func TestMessageThatFailsForGoodBecomesALetter(t *testing.T) {
	r := newRig(t)
	var e events
	stop := r.start(r.box("test", 4, &e), router.Config{Topology: quick(), Stack: middleware.StackConfig{MaxAttempts: 3}}, func(*message.Message) error { return errHandler })
	p := event("event", "effect")
	p.Headers["tries"] = int32(7)
	r.send(p)
	d := r.letter()
	stop()
	if d.Headers["sekali-attempt"] != "3" || d.Headers["event_id"] != "event" || d.Headers["tries"] != int32(7) || string(d.Body) != "effect" {
		t.Errorf("headers %v, body %q", d.Headers, d.Body)
	}
	reason, _ := d.Headers["sekali-reason"].(string)
	r.says(reason, "gave up after 3 attempts", errHandler.Error())
	if e.of(inbox.Failed) != 3 || e.total() != 3 {
		t.Errorf("%d runs, %d of them failed, want 3", e.total(), e.of(inbox.Failed))
	}
	r.effects(0)
	r.nothingLeft()
}
