package cqrstest

import (
	"context"
	"database/sql"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"go.uber.org/goleak"

	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/sqliteinbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	topic    = "shop"
	consumer = "shop.stock"
	attempts = 3
	patience = 40 * time.Second
)

var marshaler = cqrs.JSONMarshaler{GenerateName: cqrs.StructName}

// Take and Forgotten are the messages of the tests, commands or events alike.
type Take struct{ Item string }

type Forgotten struct{ Item string }

// world is an inbox and a broker, with a router that is built anew for each
// release of the service.
type world struct {
	testing.TB

	db      *sql.DB
	box     *inbox.Inbox
	broker  *gochannel.GoChannel
	letters <-chan *message.Message

	mu     sync.Mutex
	events []inbox.Event
	told   chan struct{} // one for each event
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx := context.Background()
	w := &world{TB: t, told: make(chan struct{}, 1000)}
	var err error
	w.db, err = sql.Open("sqlite", sqliteinbox.DSN(filepath.Join(t.TempDir(), "shop.db")))
	w.must(err)
	t.Cleanup(func() { _ = w.db.Close() })
	w.must(sqliteinbox.Migrate(ctx, w.db, sqliteinbox.Config{}))
	_, err = w.db.ExecContext(ctx, "CREATE TABLE effects (name TEXT NOT NULL)")
	w.must(err)
	w.box, err = sqliteinbox.Open(ctx, w.db, sqliteinbox.Config{Config: inbox.Config{Service: "shop", Hooks: inbox.Hooks{
		Done: func(_ context.Context, e inbox.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
			w.told <- struct{}{}
		},
	}}})
	w.must(err)
	w.broker = gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 100}, watermill.NopLogger{})
	t.Cleanup(func() { _ = w.broker.Close() })
	w.letters, err = w.broker.Subscribe(ctx, topic+".dlq")
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// release runs a router inside of the stack; add gives it its processors. between
// stand between the stack and the processors.
func (w *world) release(add func(r *message.Router), between ...message.HandlerMiddleware) (stop func()) {
	w.Helper()
	r, err := message.NewRouter(message.RouterConfig{CloseTimeout: patience}, watermill.NopLogger{})
	w.must(err)
	stack, err := middleware.NewStack(w.box, middleware.Trust(w.broker), middleware.StackConfig{
		Config:          middleware.Config{Consumer: consumer},
		DeadLetterTopic: func(string) string { return topic + ".dlq" },
		MaxAttempts:     attempts,
	})
	w.must(err)
	r.AddPlugin(stack.Plugin)
	r.AddMiddleware(append([]message.HandlerMiddleware{stack.Middleware}, between...)...)
	add(r)
	done := make(chan error, 1)
	go func() { done <- r.Run(context.Background()) }()
	select {
	case <-r.Running():
	case err := <-done:
		w.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		w.must(r.Close())
		w.must(<-done)
	})
	w.Cleanup(stop)
	return stop
}

// commands adds a command processor with one handler of Take.
func (w *world) commands(hideErrors bool, handle func(ctx context.Context, c *Take) error) func(r *message.Router) {
	return func(r *message.Router) {
		p, err := cqrs.NewCommandProcessorWithConfig(r, cqrs.CommandProcessorConfig{
			GenerateSubscribeTopic: func(cqrs.CommandProcessorGenerateSubscribeTopicParams) (string, error) { return topic, nil },
			SubscriberConstructor: func(cqrs.CommandProcessorSubscriberConstructorParams) (message.Subscriber, error) {
				return w.subscriber(), nil
			},
			Marshaler: marshaler, AckCommandHandlingErrors: hideErrors,
		})
		w.must(err)
		w.must(p.AddHandlers(cqrs.NewCommandHandler("stock", handle)))
	}
}

// eventsOf adds an event processor, or one of a group, with one handler of T.
func eventsOf[T any](w *world, group, ackUnknown bool, handle func(ctx context.Context, e *T) error) func(r *message.Router) {
	return func(r *message.Router) {
		if group {
			p, err := cqrs.NewEventGroupProcessorWithConfig(r, cqrs.EventGroupProcessorConfig{
				GenerateSubscribeTopic: func(cqrs.EventGroupProcessorGenerateSubscribeTopicParams) (string, error) { return topic, nil },
				SubscriberConstructor: func(cqrs.EventGroupProcessorSubscriberConstructorParams) (message.Subscriber, error) {
					return w.subscriber(), nil
				},
				Marshaler: marshaler, AckOnUnknownEvent: ackUnknown,
			})
			w.must(err)
			w.must(p.AddHandlersGroup("stock", cqrs.NewGroupEventHandler(handle)))
			return
		}
		p, err := cqrs.NewEventProcessorWithConfig(r, cqrs.EventProcessorConfig{
			GenerateSubscribeTopic: func(cqrs.EventProcessorGenerateSubscribeTopicParams) (string, error) { return topic, nil },
			SubscriberConstructor: func(cqrs.EventProcessorSubscriberConstructorParams) (message.Subscriber, error) {
				return w.subscriber(), nil
			},
			Marshaler: marshaler, AckOnUnknownEvent: ackUnknown,
		})
		w.must(err)
		w.must(p.AddHandlers(cqrs.NewEventHandler("stock", handle)))
	}
}

// subscriber outlives the router that closes it: the broker is the world's.
func (w *world) subscriber() message.Subscriber { return open{w.broker} }

type open struct{ message.Subscriber }

func (open) Close() error { return nil }

// send publishes one copy of a command or event.
func (w *world) send(key string, v any) {
	w.Helper()
	msg, err := marshaler.Marshal(v)
	w.must(err)
	msg.Metadata.Set("event_id", key)
	w.must(w.broker.Publish(topic, msg))
}

// came waits for so many runs and checks what they came to: in no order, those of
// messages that were there at once are told side by side.
func (w *world) came(want ...inbox.Outcome) {
	w.Helper()
	limit := time.After(patience)
	for range want {
		select {
		case <-w.told:
		case <-limit:
			w.Fatalf("no %d runs in %s", len(want), patience)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var got []inbox.Outcome
	for _, e := range w.events {
		got = append(got, e.Outcome)
	}
	w.events = nil
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.Errorf("outcomes %v, want %v", got, want)
	}
}

// letter waits for one.
func (w *world) letter() *message.Message {
	w.Helper()
	select {
	case m := <-w.letters:
		m.Ack()
		return m
	case <-time.After(patience):
		w.Fatalf("no letter in %s", patience)
		return nil
	}
}

// noLetter is asked when the router has ended: letters are published before that.
func (w *world) noLetter() {
	w.Helper()
	select {
	case m := <-w.letters:
		m.Ack()
		w.Errorf("a letter: %v", m.Metadata)
	default:
	}
}

// books checks the committed effects and claims.
func (w *world) books(effects, claims int) {
	w.Helper()
	for table, want := range map[string]int{"effects": effects, "processed_messages": claims} {
		var got int
		w.must(w.db.QueryRowContext(context.Background(), "SELECT count(*) FROM "+table).Scan(&got))
		if got != want {
			w.Errorf("%d rows in %s, want %d", got, table, want)
		}
	}
}

// effect writes into the transaction of the claim.
func effect(ctx context.Context, name string) error {
	tx, err := inbox.Tx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", name)
	return err
}
