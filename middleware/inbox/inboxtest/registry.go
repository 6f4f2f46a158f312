package inboxtest

import (
	"strings"
	"sync"
	"testing"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Everything works with a pool of one connection: a run needs one, and a copy
// that waits needs none.
func poolOfOne(h *test) {
	h.box = h.open(inbox.Config{}, 1)
	h.fifty([]*inbox.Inbox{h.box}, "k")
	h.absent(h.claim("absent"))
	if h.db.Raw != nil {
		h.Run("split", func(t *testing.T) {
			handlerEndsTheTransaction(&test{T: t, s: h.s, db: h.db, ctx: h.ctx, id: h.s.n.Add(1), consumer: h.consumer, box: h.box})
		})
	}
}

// A consumer's row belongs to one service and one queue and knows its key rule;
// the first registration sets horizon and mode, a later one changes nothing.
func registration(h *test) {
	c := inbox.Consumer{Name: h.consumer + "-r", Queue: "orders", KeyRule: "header:event_id", Mode: inbox.Observe}
	for range 2 {
		if err := h.box.Register(h.ctx, c); err != nil {
			h.Fatalf("register: %v", err)
		}
	}
	enforce := c
	enforce.Mode = inbox.Enforce
	if err := h.box.Register(h.ctx, enforce); err != nil {
		h.Fatalf("register with another mode: %v", err)
	}
	if !h.box.Observes(c.Name) {
		h.Error("a later registration changed the mode")
	}
	before, err := h.box.Lookup(h.ctx, inbox.Claim{Consumer: c.Name, Key: "k"})
	if err != nil || before[0].Horizon.IsZero() {
		h.Errorf("horizon: %+v, %v", before, err)
	}
	for what, other := range map[string]inbox.Consumer{
		"queue":    {Name: c.Name, Queue: "payments", KeyRule: c.KeyRule},
		"key rule": {Name: c.Name, Queue: c.Queue, KeyRule: "message-id"},
		"service":  {Name: c.Name, Queue: c.Queue, KeyRule: c.KeyRule, Service: "another"},
	} {
		if err := h.box.Register(h.ctx, other); inbox.ClassOf(err) != inbox.ClassConfig {
			h.Errorf("register with another %s: %v", what, err)
		} else if what == "key rule" && !strings.Contains(err.Error(), "sekali inbox accept-key-rule '"+c.Name+"' 'message-id' --why") {
			h.Errorf("register with another key rule: %v does not name the command that accepts it", err)
		}
	}
	// Two services that take one name for different queues: the second is refused.
	second := h.db.Open(h.T, inbox.Config{Service: "second"}, 0)
	if err := second.Register(h.ctx, inbox.Consumer{Name: c.Name, Queue: "payments"}); inbox.ClassOf(err) != inbox.ClassConfig {
		h.Errorf("register from another service: %v", err)
	}
	after, err := h.box.Lookup(h.ctx, inbox.Claim{Consumer: c.Name, Key: "k"})
	if err != nil || !after[0].Horizon.Equal(before[0].Horizon) {
		h.Errorf("horizon moved from %s to %s, %v", before[0].Horizon, after[0].Horizon, err)
	}
}

// Processes that register one consumer at the same moment agree.
func registrationAtOnce(h *test) {
	const processes = 8
	boxes := make([]*inbox.Inbox, processes)
	for i := range boxes {
		boxes[i] = h.open(inbox.Config{}, 0)
	}
	var wg sync.WaitGroup
	for _, box := range boxes {
		wg.Go(func() {
			if err := box.Register(h.ctx, inbox.Consumer{Name: h.consumer + "-r", Queue: "orders"}); err != nil {
				h.Errorf("register: %v", err)
			}
		})
	}
	wg.Wait()
}

// A message of a consumer that was not registered is held, not processed: its
// horizon would be unknown.
func unregisteredConsumer(h *test) {
	out, err := h.once(h.ctx, h.box, inbox.Claim{Consumer: h.consumer + "-nobody", Key: "k"}, h.never)
	h.checkErr(out, err, inbox.ClassConfig, inbox.ErrNotRegistered)
}
