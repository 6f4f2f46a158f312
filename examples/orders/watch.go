package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/router"
)

// watch tells the parent what a child does, a line each, written at once: what
// was written before a SIGKILL arrives.
type watch struct {
	log *slog.Logger

	mu  sync.Mutex
	out io.Writer
}

// The lines; an outcome is one, too, and processed has the number of those that
// shared the transaction behind it. A processed or duplicate outcome is told after its commit, so that
// a kill in between hides it; the books do not depend on that.
const (
	lineReady     = "ready"     // the consumer consumes
	lineDelivered = "delivered" // a delivery came to the router
	lineSettled   = "settled"   // and was settled
	linePublished = "published" // the broker confirmed a message
	lineSent      = "sent"      // and a number: all orders below it are confirmed

	lineWouldSkip = "would-skip" // the inbox, observing, and so did the old table
	lineWouldLose = "would-lose" // the inbox, observing, and the old table did not
	lineEnforces  = "enforces"   // the inbox no longer observes only
)

func (w *watch) tell(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = io.WriteString(w.out, line+"\n")
}

func (w *watch) hooks() inbox.Hooks {
	return inbox.Hooks{Done: func(_ context.Context, e inbox.Event) {
		if e.Outcome == inbox.Processed {
			w.tell(fmt.Sprintf("%s %d", e.Outcome, e.Group))
			return
		}
		w.tell(e.Outcome.String())
	}}
}

// router counts deliveries around everything else.
func (w *watch) router(svc *router.Router) {
	svc.Watermill().AddMiddleware(func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			w.tell(lineDelivered)
			defer w.tell(lineSettled)
			return h(msg)
		}
	})
	go func() {
		<-svc.Watermill().Running()
		w.tell(lineReady)
	}()
}
