package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/router"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// Releases of a service on its way into the inbox.
const (
	byHand = "by hand" // the hand-written table decides
	beside = "beside"  // the inbox claims, the hand-written table is still written
	after  = "after"   // the hand-written table is only asked
)

// serveAdopting is one process of a service that had a hand-written table of
// handled events, see serveByHand. What differs from serve is numbered.
func serveAdopting(ctx context.Context, service string, s settings, w *watch) error {
	db, err := sql.Open(s.Driver, s.Database)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(concurrency)
	db.SetMaxIdleConns(concurrency)
	queue := queueName(service, s.Topic)
	var box *inbox.Inbox
	box, err = pginbox.Open(ctx, db, pginbox.Config{Config: inbox.Config{
		Service: service, Logger: w.log,
		Hooks: w.adoptionHooks(func() bool { return box.Observes(queue) }),
		// 1: what the old table has, was handled, and gets a claim without being
		// handled again.
		Already: func(ctx context.Context, c inbox.Claim) (already bool, err error) {
			tx, err := inbox.Tx(ctx)
			if err != nil {
				return false, err
			}
			err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM "+handledTable(service)+" WHERE event_id = $1)", c.Key).Scan(&already)
			return already, err
		},
	}})
	if err != nil {
		return err
	}
	// 2: the consumer begins as an observer. Its row keeps the mode from then on:
	// later starts change nothing.
	svc, err := router.New(s.Broker, box, router.Config{
		Topics: rabbit.PubSub(service), Topology: &rabbit.Topology{}, Concurrency: concurrency, Logger: w.log,
		Stack: middleware.StackConfig{Config: middleware.Config{Mode: inbox.Observe}},
	})
	if err != nil {
		return err
	}
	w.router(svc)
	svc.Watermill().AddMiddleware(noteWrites)
	if err := svc.Handle(s.Topic, adoptingHandler(service, s.Release)); err != nil { //nolint:contextcheck // each message brings its own
		return err
	}
	return svc.Run(ctx)
}

// adoptingHandler is handler, and for the release that runs beside the old one:
//
// 3: it still notes the event in the old table, now in the claim's transaction,
// and writes nothing when somebody else had noted it. Only that keeps it and a
// process of the old release from doing the same order at the same time: the old
// one knows nothing of claims, and Already sees only what was committed.
func adoptingHandler(service, release string) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		ctx := msg.Context()
		var o order
		if err := json.Unmarshal(msg.Payload, &o); err != nil {
			return inbox.Permanent(fmt.Errorf("order cannot be read: %w", err))
		}
		tx, err := inbox.Tx(ctx)
		if err != nil {
			return err
		}
		writes(ctx, false)
		if release == beside {
			first, err := firstTime(ctx, tx, service, msg.Metadata.Get("event_id"))
			if err != nil || !first {
				return err // nil: the claim is committed, the work was done before
			}
		}
		writes(ctx, true)
		return handlers[service](ctx, tx, o, release)
	}
}

// What follows is for the report: whether the inbox would have decided as the old
// table did. A service counts its hooks' WouldBe instead.

type wroteKey struct{}

// noteWrites gives each message a place for whether its handler wrote.
func noteWrites(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		msg.SetContext(context.WithValue(msg.Context(), wroteKey{}, new(bool)))
		return h(msg)
	}
}

func writes(ctx context.Context, yes bool) {
	if wrote, ok := ctx.Value(wroteKey{}).(*bool); ok {
		*wrote = yes
	}
}

func (w *watch) adoptionHooks(observes func() bool) inbox.Hooks {
	var told atomic.Bool
	return inbox.Hooks{Done: func(ctx context.Context, e inbox.Event) {
		wrote, ok := ctx.Value(wroteKey{}).(*bool)
		out := e.Outcome
		if out == inbox.Processed && ok {
			switch skips := e.WouldBe == inbox.Duplicate; {
			case skips && *wrote:
				w.tell(lineWouldLose)
			case skips:
				w.tell(lineWouldSkip)
			}
			if !*wrote {
				out = inbox.Duplicate
			}
		}
		w.tell(out.String())
		if !observes() && told.CompareAndSwap(false, true) {
			w.tell(lineEnforces)
		}
	}}
}
