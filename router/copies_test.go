package router_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/middleware/inbox/sqliteinbox"
	"github.com/sekali-mq/sekali/router"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// Several handlers on one queue share its messages by chance: the consumer is the
// queue, not the handler, or each would process the others' copies.
func TestFourHandlersOnOneQueueShareTheirClaims(t *testing.T) {
	r := newRig(t)
	var e events
	box := r.box("test", 20, &e)
	conn, err := rabbit.NewConnection(r.broker, rabbit.ConnectionConfig{})
	r.must(err)
	defer conn.Close()
	pub, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	r.must(err)
	defer pub.Close()
	stack, err := middleware.NewStack(box, pub.ToQueues(), middleware.StackConfig{Logger: r.log.logger()})
	r.must(err)
	sub, err := rabbit.NewSubscriber(conn, rabbit.SubscriberConfig{Topology: quick(), Concurrency: 4, Register: stack.Register})
	r.must(err)
	defer sub.Close()
	mill, err := message.NewRouter(message.RouterConfig{}, watermill.NewSlogLogger(r.log.logger()))
	r.must(err)
	mill.AddMiddleware(stack.Middleware)
	var mu sync.Mutex
	worked := map[string]int{}
	for i := range 4 {
		mill.AddConsumerHandler(fmt.Sprintf("stock-%d", i+1), queue, sub, func(msg *message.Message) error {
			mu.Lock()
			worked[message.HandlerNameFromCtx(msg.Context())]++
			mu.Unlock()
			return effect(msg)
		})
	}
	done := make(chan error, 1)
	go func() { done <- mill.Run(t.Context()) }()
	<-mill.Running()
	r.sendEvents(100, 3)
	r.eventually("all copies are settled", func() bool { return e.of(inbox.Processed)+e.of(inbox.Duplicate) == 300 })
	r.must(mill.Close())
	r.must(<-done)
	if len(worked) != 4 {
		t.Errorf("handlers that worked: %v, want all four", worked)
	}
	if e.of(inbox.Processed) != 100 || e.of(inbox.Duplicate) != 200 {
		t.Errorf("%d processed, %d duplicates, want 100 and 200", e.of(inbox.Processed), e.of(inbox.Duplicate))
	}
	r.effects(100)
	r.nothingLeft()
}

// Fifty copies that eight services have in hand at the same time: one effect.
func TestFiftyCopiesAtOnceOverEightConsumers(t *testing.T) {
	const copies, consumers = 50, 8
	for _, isolation := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		t.Run("postgres "+isolation.String(), func(t *testing.T) {
			r := newRig(t)
			fiftyCopies(r, copies, consumers, func(e *events) *inbox.Inbox {
				b, err := pginbox.Open(t.Context(), r.pool(8), pginbox.Config{
					Isolation: isolation, Config: inbox.Config{Service: "test", Hooks: e.hooks(), Logger: r.log.logger()},
				})
				r.must(err)
				return b
			})
			r.effects(1)
		})
	}
	t.Run("sqlite", func(t *testing.T) {
		r := newRig(t)
		path := filepath.Join(t.TempDir(), "test.db")
		open := func() *sql.DB {
			db, err := sql.Open("sqlite", sqliteinbox.DSN(path))
			r.must(err)
			t.Cleanup(func() { _ = db.Close() })
			return db
		}
		r.db = open() // the effects are looked for here
		r.must(sqliteinbox.Migrate(t.Context(), r.db, sqliteinbox.Config{}))
		r.exec("CREATE TABLE effects (name TEXT NOT NULL)")
		fiftyCopies(r, copies, consumers, func(e *events) *inbox.Inbox {
			b, err := sqliteinbox.Open(t.Context(), open(), sqliteinbox.Config{Config: inbox.Config{Service: "test", Hooks: e.hooks(), Logger: r.log.logger()}})
			r.must(err)
			return b
		})
		r.effects(1)
	})
}

func fiftyCopies(r *rig, copies, consumers int, open func(e *events) *inbox.Inbox) {
	r.Helper()
	var e events
	calls := make(chan struct{}, copies)
	var stops []func()
	// The first to run waits until every service has a copy in hand.
	release := make(chan struct{})
	inHand := make(chan int, copies)
	for i := range consumers {
		svc := r.service(open(&e), router.Config{Topology: quick(), Concurrency: 8}, func(msg *message.Message) error {
			calls <- struct{}{}
			<-release
			return effect(msg)
		})
		svc.Watermill().AddMiddleware(func(h message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				inHand <- i
				return h(msg)
			}
		})
		stops = append(stops, r.run(svc))
	}
	for range copies {
		r.send(event("event", "effect"))
	}
	seen := map[int]bool{}
	for len(seen) < consumers {
		seen[<-inHand] = true
	}
	close(release)
	r.eventually("all copies are settled", func() bool { return e.of(inbox.Processed)+e.of(inbox.Duplicate) == copies })
	var ending sync.WaitGroup
	for _, stop := range stops {
		ending.Go(stop)
	}
	ending.Wait()
	if e.of(inbox.Processed) != 1 || e.of(inbox.Duplicate) != copies-1 {
		r.Errorf("%d processed, %d duplicates, want 1 and %d", e.of(inbox.Processed), e.of(inbox.Duplicate), copies-1)
	}
	// A run that the database undid may have called it before.
	if n := len(calls); n < 1 || n > consumers {
		r.Errorf("the handler was called %d times", n)
	}
	r.nothingLeft()
}
