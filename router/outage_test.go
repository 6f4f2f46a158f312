package router_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/router"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// A database that goes away under load and comes back: deliveries are held, and
// afterwards everything is processed. No letter, and no attempt is counted.
func TestDatabaseStoppedUnderLoad(t *testing.T) {
	testservices.RabbitMQ(t)
	server := testservices.Start(t, "postgres")
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("crash=%t", crash), func(t *testing.T) {
			r := newRigAt(t, server.NewDatabase())
			var e events
			var highest atomic.Int64 // attempt
			stop := r.start(r.box("test", 8, &e), router.Config{Topology: quick(), Concurrency: 8}, func(msg *message.Message) error {
				for old := highest.Load(); ; old = highest.Load() {
					if a := int64(inbox.Attempt(msg.Context())); a <= old || highest.CompareAndSwap(old, a) {
						break
					}
				}
				return effect(msg)
			})
			// The load stays on until the outage was noticed.
			noticed := make(chan struct{})
			sent := make(chan error, 1)
			n := 0
			go func() {
				for {
					if err := r.trySend(event(fmt.Sprintf("event-%d", n), fmt.Sprintf("effect-%d", n))); err != nil {
						sent <- err
						return
					}
					n++
					select {
					case <-noticed:
						sent <- nil
						return
					default:
					}
				}
			}()
			r.eventually("the load is on", func() bool { return e.of(inbox.Processed) > 20 })
			if crash {
				server.Kill()
			} else {
				server.Stop()
			}
			r.says(r.logged("consumer is held"), "the database does not take its work", "goes on by itself")
			close(noticed)
			r.must(<-sent)
			before := e.total()
			server.Start()
			r.logged("consumer goes on")
			if probes := e.total() - before; probes > 20 {
				t.Errorf("%d probes while the server started", probes)
			}
			r.eventually("the queue is empty", func() bool { return r.ready(queue) == 0 })
			r.eventually("all events took effect", func() bool { return r.count("SELECT count(*) FROM processed_messages") == n })
			stop()
			if highest.Load() != 1 {
				t.Errorf("attempt %d was counted: an outage is no attempt", highest.Load())
			}
			r.effects(n)
			r.nothingLeft()
		})
	}
}

// A table that is dropped under a running service: the set-up is wrong, nothing
// is given up, and the service goes on when it is mended.
func TestTableDroppedUnderTheService(t *testing.T) {
	r := newRig(t)
	var e events
	stop := r.start(r.box("test", 4, &e), router.Config{Topology: quick()}, effect)
	r.send(event("event-0", "effect-0"))
	r.eventually("the first event took effect", func() bool { return e.of(inbox.Processed) == 1 })
	r.exec("ALTER TABLE processed_messages RENAME TO hidden")
	r.send(event("event-1", "effect-1"))
	r.says(r.logged("consumer is held"), "set-up is wrong", "processed_messages")
	r.eventually("probes run", func() bool { return e.of(inbox.Failed) >= 3 })
	for _, ev := range e.all[1:] {
		r.config(ev.Err)
	}
	if n := r.ready(rabbit.DeadLetterQueue(queue)); n != 0 {
		t.Errorf("%d letters because of a missing table", n)
	}
	r.exec("ALTER TABLE hidden RENAME TO processed_messages")
	r.eventually("the second event took effect", func() bool { return e.of(inbox.Processed) == 2 })
	stop()
	r.effects(2)
	r.nothingLeft()
}

// The table of the handler is missing, not ours: a mistake of the set-up, too.
func TestHandlersTableIsMissing(t *testing.T) {
	r := newRig(t)
	var e events
	stop := r.start(r.box("test", 4, &e), router.Config{Topology: quick()}, effect)
	r.exec("ALTER TABLE effects RENAME TO hidden")
	r.send(event("event", "effect"))
	r.says(r.logged("message is held"), "set-up is wrong", "effects")
	r.exec("ALTER TABLE hidden RENAME TO effects")
	r.eventually("the event took effect", func() bool { return e.of(inbox.Processed) == 1 })
	stop()
	r.effects(1)
	r.nothingLeft()
}

// A consumer that nobody registered is held: without its row no horizon and no
// mode is known.
func TestForgottenRegistrationIsHeld(t *testing.T) {
	r := newRig(t)
	var e events
	box := r.box("test", 4, &e)
	conn, err := rabbit.NewConnection(r.broker, rabbit.ConnectionConfig{})
	r.must(err)
	defer conn.Close()
	pub, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	r.must(err)
	defer pub.Close()
	stack, err := middleware.NewStack(box, pub.ToQueues(), middleware.StackConfig{Logger: r.log.logger()})
	r.must(err)
	sub, err := rabbit.NewSubscriber(conn, rabbit.SubscriberConfig{Topology: quick(), CloseTimeout: 5 * time.Second}) // no Register
	r.must(err)
	mill, err := message.NewRouter(message.RouterConfig{}, nil)
	r.must(err)
	mill.AddConsumerHandler("stock", queue, sub, effect).AddMiddleware(stack.Middleware)
	done := make(chan error, 1)
	go func() { done <- mill.Run(t.Context()) }()
	<-mill.Running()
	r.send(event("event", "effect"))
	r.says(r.logged("consumer is held"), "set-up is wrong", "not registered", "Register")
	// Mended while it runs.
	r.must(stack.Register(t.Context(), queue))
	r.eventually("the event took effect", func() bool { return e.of(inbox.Processed) == 1 })
	r.must(mill.Close())
	r.must(<-done)
	r.must(sub.Close())
	r.effects(1)
	r.nothingLeft()
}

// The pool is bounded, and every connection is somebody else's: a wait.
func TestServiceWaitsForItsPool(t *testing.T) {
	r := newRig(t)
	var e events
	pool := r.pool(2)
	box, err := pginbox.Open(t.Context(), pool, pginbox.Config{Config: inbox.Config{Service: "test", Hooks: e.hooks(), LockWait: 200 * time.Millisecond}})
	r.must(err)
	stop := r.start(box, router.Config{Topology: quick()}, effect)
	a, err := pool.Conn(t.Context())
	r.must(err)
	b, err := pool.Conn(t.Context())
	r.must(err)
	r.sendEvents(5, 1)
	r.must(a.Close())
	r.must(b.Close())
	r.eventually("all events took effect", func() bool { return e.of(inbox.Processed) == 5 })
	stop()
	r.effects(5)
	r.nothingLeft()
}
