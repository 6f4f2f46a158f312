package cqrstest

import (
	"context"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// only lets messages of one type through and answers the others with err.
func only(name string, err error) message.HandlerMiddleware {
	return func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			if marshaler.NameFromMessage(msg) != name {
				return nil, err
			}
			return h(msg)
		}
	}
}

func taken(ctx context.Context, e *Take) error { return effect(ctx, e.Item) }

func remembered(ctx context.Context, e *Forgotten) error { return effect(ctx, e.Item) }

// both runs a test with a processor of single handlers and with one of a group.
func both(t *testing.T, f func(w *world, group bool)) {
	for name, group := range map[string]bool{"single": false, "group": true} {
		t.Run(name, func(t *testing.T) { f(newWorld(t), group) })
	}
}

func TestEventTakesEffectOnce(t *testing.T) {
	both(t, func(w *world, group bool) {
		stop := w.release(eventsOf(w, group, false, taken))
		for range 3 {
			w.send("sold-1", Take{"lamp"})
		}
		w.came(inbox.Processed, inbox.Duplicate, inbox.Duplicate)
		stop()
		w.noLetter()
		w.books(1, 1)
	})
}

// The trap: an event that nobody handles is claimed, so the release that can
// handle it never does.
func TestUnknownEventThatIsAckedIsClaimed(t *testing.T) {
	both(t, func(w *world, group bool) {
		stop := w.release(eventsOf(w, group, true, taken))
		w.send("event-1", Forgotten{"lamp"})
		w.came(inbox.Processed)
		stop()
		w.noLetter()
		w.books(0, 1)

		stop = w.release(eventsOf(w, group, true, remembered))
		w.send("event-1", Forgotten{"lamp"})
		w.came(inbox.Duplicate)
		stop()
		w.books(0, 1)
	})
}

func TestUnknownEventIsRetriedAndThenALetter(t *testing.T) {
	both(t, func(w *world, group bool) {
		stop := w.release(eventsOf(w, group, false, taken))
		w.send("event-1", Forgotten{"lamp"})
		w.came(inbox.Failed, inbox.Failed, inbox.Failed)
		letter := w.letter()
		stop()
		if r := letter.Metadata.Get("sekali-reason"); !strings.Contains(r, "Forgotten") {
			w.Errorf("the letter's reason is %q, want the event's name in it", r)
		}
		w.books(0, 0)

		stop = w.release(eventsOf(w, group, false, remembered))
		w.must(w.broker.Publish(topic, letter))
		w.came(inbox.Processed)
		stop()
		w.books(1, 1)
	})
}

func TestSkippedEventLeavesNoClaim(t *testing.T) {
	both(t, func(w *world, group bool) {
		stop := w.release(eventsOf(w, group, false, taken), only("Take", inbox.Skip))
		w.send("event-1", Forgotten{"lamp"})
		w.came(inbox.Unclaimed)
		w.send("event-2", Take{"lamp"})
		w.came(inbox.Processed)
		stop()
		w.noLetter()
		w.books(1, 1)

		stop = w.release(eventsOf(w, group, false, remembered))
		w.send("event-1", Forgotten{"lamp"})
		w.came(inbox.Processed)
		stop()
		w.books(2, 2)
	})
}
