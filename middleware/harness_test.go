package middleware_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/sqliteinbox"
)

// world is a SQLite inbox and an in-process broker, both real.
type world struct {
	t      testing.TB
	db     *sql.DB
	box    *inbox.Inbox
	broker *gochannel.GoChannel
	router *message.Router
	log    *lines
	runErr chan error

	mu      sync.Mutex
	events  []inbox.Event
	changed chan struct{} // closed and made anew with each event or letter
	letters []*message.Message
}

const (
	topic    = "orders"
	consumer = "stock"
)

// newWorld opens all but starts nothing.
func newWorld(t testing.TB) *world {
	t.Helper()
	ctx := t.Context()
	db, err := sql.Open("sqlite", sqliteinbox.DSN(filepath.Join(t.TempDir(), "test.db")))
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	must(t, sqliteinbox.Migrate(ctx, db, sqliteinbox.Config{}))
	_, err = db.ExecContext(ctx, "CREATE TABLE effects (name TEXT NOT NULL)")
	must(t, err)
	w := &world{t: t, db: db, log: &lines{}, changed: make(chan struct{}), runErr: make(chan error, 1)}
	w.box, err = sqliteinbox.Open(ctx, db, sqliteinbox.Config{Config: inbox.Config{
		Service: "test",
		Hooks:   inbox.Hooks{Done: func(_ context.Context, e inbox.Event) { w.note(func() { w.events = append(w.events, e) }) }},
	}})
	must(t, err)
	w.broker = gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
	w.router, err = message.NewRouter(message.RouterConfig{CloseTimeout: 10 * time.Second}, watermill.NewSlogLogger(slog.New(slog.NewTextHandler(w.log, nil))))
	must(t, err)
	return w
}

// stack builds a stack whose letters are collected through the broker.
func (w *world) stack(c middleware.StackConfig) *middleware.Stack {
	w.t.Helper()
	if c.Consumer == "" && !c.ConsumerIsHandler {
		c.Consumer = consumer
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(w.log, nil))
	}
	s, err := middleware.NewStack(w.box, middleware.Trust(w.broker), c)
	must(w.t, err)
	return s
}

// run starts the router and collects letters of the topic.
func (w *world) run() {
	w.t.Helper()
	dead, err := w.broker.Subscribe(context.Background(), topic+".dlq")
	must(w.t, err)
	go func() {
		for msg := range dead {
			w.note(func() { w.letters = append(w.letters, msg) })
			msg.Ack()
		}
	}()
	go func() { w.runErr <- w.router.Run(context.Background()) }()
	select {
	case <-w.router.Running():
	case err := <-w.runErr:
		w.t.Fatal(err)
	}
	w.t.Cleanup(w.stop)
}

func (w *world) stop() {
	_ = w.router.Close()
	_ = w.broker.Close()
}

// handle adds a handler of the topic inside the stack.
func (w *world) handle(s *middleware.Stack, h message.NoPublishHandlerFunc) {
	w.router.AddPlugin(s.Plugin)
	w.router.AddConsumerHandler("handler", topic, w.broker, h).AddMiddleware(s.Middleware)
}

func (w *world) publish(key string) {
	w.t.Helper()
	msg := message.NewMessage(watermill.NewUUID(), []byte("payload of "+key))
	msg.Metadata.Set("event_id", key)
	must(w.t, w.broker.Publish(topic, msg))
}

func (w *world) note(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	close(w.changed)
	w.changed = make(chan struct{})
}

// until waits for a condition on what was noted; it is asked under the lock.
func (w *world) until(what string, cond func() bool) {
	w.t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		w.mu.Lock()
		ok, changed := cond(), w.changed
		w.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			w.t.Fatalf("still waiting for %s; outcomes %v; log:\n%s", what, w.outcomes(), w.log)
		}
	}
}

func (w *world) outcomes() map[inbox.Outcome]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := map[inbox.Outcome]int{}
	for _, e := range w.events {
		n[e.Outcome]++
	}
	return n
}

// count is for conditions of until.
func (w *world) count(o inbox.Outcome) int {
	n := 0
	for _, e := range w.events {
		if e.Outcome == o {
			n++
		}
	}
	return n
}

func (w *world) rows(query string, args ...any) (n int) {
	w.t.Helper()
	must(w.t, w.db.QueryRowContext(context.Background(), query, args...).Scan(&n))
	return n
}

func (w *world) effects(name string) int {
	w.t.Helper()
	return w.rows("SELECT count(*) FROM effects WHERE name = ?", name)
}

func (w *world) claims() int {
	w.t.Helper()
	return w.rows("SELECT count(*) FROM processed_messages")
}

// effect is what a handler does: a write in the claim's transaction.
func effect(ctx context.Context, name string) error {
	tx, err := inbox.Tx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", name)
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lines keeps a log.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

var _ io.Writer = (*lines)(nil)

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// counter names calls.
type counter struct{ atomic.Int64 }

func (c *counter) next() string { return fmt.Sprint(c.Add(1)) }
