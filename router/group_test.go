package router_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/router"
)

// grouping opens an inbox with group commit.
func (r *rig) grouping(e *events) *inbox.Inbox {
	r.Helper()
	b, err := pginbox.Open(r.Context(), r.pool(4), pginbox.Config{Config: inbox.Config{Service: "stock", Group: 64, Hooks: e.hooks(), Logger: r.log.logger()}})
	r.must(err)
	return b
}

// group is the largest that was committed.
func (e *events) group() (size int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.all {
		size = max(size, ev.Group)
	}
	return size
}

// Where one message is handed out at a time no group can form, and the log says so at
// the start.
func TestGroupsOfOneAreTold(t *testing.T) {
	r := newRig(t)
	var e events
	r.service(r.grouping(&e), router.Config{Concurrency: 1}, effect)
	r.says(r.logged("group commit is on"), "Concurrency", "group=64")
	quiet := newRig(t)
	quiet.service(quiet.grouping(&e), router.Config{}, effect)
	if got := quiet.log.String(); strings.Contains(got, "WARN") {
		t.Errorf("the log says %s", got)
	}
}

// allButOne waits until 300 events, each sent twice, are settled in groups, and checks
// that they took effect once, but for the one that fails, each of whose copies is a
// letter.
func (r *rig) allButOne(e *events, stop func()) {
	r.Helper()
	r.eventually("all are settled", func() bool { return e.total() == 600 })
	stop()
	r.effects(299)
	for range 2 {
		if l := r.letter(); string(l.Body) != "effect-77" {
			r.Errorf("a letter of %s", l.Body)
		}
	}
	r.nothingLeft()
	if e.of(inbox.Processed) != 299 || e.of(inbox.Duplicate) != 299 || e.group() < 2 {
		r.Errorf("processed %d, duplicates %d, groups of at most %d", e.of(inbox.Processed), e.of(inbox.Duplicate), e.group())
	}
}

// Deliveries that wait share transactions; copies are skipped, and what fails for
// good alone becomes a letter.
func TestDeliveriesAreCommittedInGroups(t *testing.T) {
	r := newRig(t)
	r.declare(queue, queue+".dlq")
	r.sendEvents(300, 2)
	var e events
	stop := r.start(r.grouping(&e), router.Config{}, func(msg *message.Message) error {
		if err := effect(msg); err != nil {
			return err
		}
		if string(msg.Payload) == "effect-77" {
			return inbox.Permanent(errors.New("out of stock"))
		}
		return nil
	})
	r.allButOne(&e, stop)
}

// A handler of sets writes for many messages with one statement; one that fails for
// good becomes a letter, alone.
func TestSetsOfMessages(t *testing.T) {
	r := newRig(t)
	r.declare(queue, queue+".dlq")
	r.sendEvents(300, 2)
	var e events
	var mu sync.Mutex
	largest := 0
	stop := r.start(r.grouping(&e), router.Config{}, middleware.Set(func(ctx context.Context, msgs []*message.Message) error {
		mu.Lock()
		largest = max(largest, len(msgs))
		mu.Unlock()
		tx, err := inbox.Tx(ctx)
		if err != nil {
			return err
		}
		rows, args := make([]string, len(msgs)), make([]any, len(msgs))
		for i, msg := range msgs {
			rows[i], args[i] = fmt.Sprintf("($%d)", i+1), string(msg.Payload)
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES "+strings.Join(rows, ", "), args...); err != nil {
			return err
		}
		for _, msg := range msgs {
			if string(msg.Payload) == "effect-77" {
				return inbox.Permanent(errors.New("out of stock"))
			}
		}
		return nil
	}))
	r.allButOne(&e, stop)
	if largest < 2 {
		t.Errorf("sets of at most %d", largest)
	}
}
