package cqrstest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

var errEmpty = errors.New("no such lamp")

func take(ctx context.Context, c *Take) error { return effect(ctx, c.Item) }

// partly writes, and then fails.
func partly(ctx context.Context, c *Take) error {
	if err := effect(ctx, c.Item); err != nil {
		return err
	}
	return errEmpty
}

func TestCommandTakesEffectOnce(t *testing.T) {
	w := newWorld(t)
	stop := w.release(w.commands(false, take))
	for range 3 {
		w.send("order-1", Take{"lamp"})
	}
	w.came(inbox.Processed, inbox.Duplicate, inbox.Duplicate)
	stop()
	w.noLetter()
	w.books(1, 1)
}

func TestFailingCommandIsRetriedAndThenALetter(t *testing.T) {
	w := newWorld(t)
	stop := w.release(w.commands(false, partly))
	w.send("order-1", Take{"lamp"})
	w.came(inbox.Failed, inbox.Failed, inbox.Failed)
	letter := w.letter()
	stop()
	if r := letter.Metadata.Get("sekali-reason"); !strings.Contains(r, errEmpty.Error()) || !strings.Contains(r, "3 attempts") {
		t.Errorf("the letter's reason is %q", r)
	}
	w.books(0, 0)
	w.noLetter()

	// Nothing stands in the way of the letter when the fault is mended.
	stop = w.release(w.commands(false, take))
	w.must(w.broker.Publish(topic, letter))
	w.came(inbox.Processed)
	stop()
	w.books(1, 1)
}

// The trap: what the handler wrote before it failed is committed, its error is
// gone, and no later copy runs.
func TestHiddenCommandErrorLosesTheCommand(t *testing.T) {
	w := newWorld(t)
	stop := w.release(w.commands(true, partly))
	w.send("order-1", Take{"lamp"})
	w.came(inbox.Processed)
	stop()
	w.noLetter()
	w.books(1, 1)

	stop = w.release(w.commands(true, take))
	w.send("order-1", Take{"lamp"})
	w.came(inbox.Duplicate)
	stop()
	w.books(1, 1)
}

// Whatever is set, a command processor takes a command of another type for
// handled: two commands on one queue lose each other.
func TestCommandOfAnotherTypeIsTakenForHandled(t *testing.T) {
	w := newWorld(t)
	stop := w.release(w.commands(false, take))
	w.send("order-1", Forgotten{"lamp"})
	w.came(inbox.Processed)
	stop()
	w.noLetter()
	w.books(0, 1)
}

// A middleware between the stack and the processor sees the type before the
// claim is taken for good.
func TestCommandOfAnotherTypeIsALetterWhereTheTypeIsLookedAt(t *testing.T) {
	w := newWorld(t)
	stop := w.release(w.commands(false, take), only("Take", inbox.Permanent(errors.New("nobody handles this command"))))
	w.send("order-1", Forgotten{"lamp"})
	w.came(inbox.Failed)
	if r := w.letter().Metadata.Get("sekali-reason"); !strings.Contains(r, "nobody handles this command") {
		t.Errorf("the letter's reason is %q", r)
	}
	w.send("order-2", Take{"lamp"})
	w.came(inbox.Processed)
	stop()
	w.books(1, 1)
}
