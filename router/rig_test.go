package router_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/router"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// patience bounds what a test waits for; nothing should take that long.
const patience = 40 * time.Second

// queue that the tests' services consume from, in a virtual host of their own.
const queue = "orders.stock"

// rig is a database and a virtual host of the test's own, with plain clients.
type rig struct {
	testing.TB

	broker, database string
	db               *sql.DB
	conn             *amqp.Connection
	raw              *amqp.Channel
	log              *recorder
}

// newRig also checks that no goroutine is left when the test has ended.
func newRig(t testing.TB) *rig {
	t.Helper()
	return newRigAt(t, testservices.NewPostgresDatabase(t))
}

func newRigAt(t testing.TB, database string) *rig {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if err := goleak.Find(ignore); err != nil {
			t.Errorf("goroutines are left: %v", err)
		}
	})
	r := &rig{TB: t, broker: testservices.NewVirtualHost(t), database: database, log: &recorder{changed: make(chan struct{})}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", r.log)
		}
	})
	r.db = r.pool(4)
	r.must(pginbox.Migrate(t.Context(), r.db, pginbox.Config{}))
	// No key, so that a second effect is seen.
	r.exec("CREATE TABLE effects (name TEXT NOT NULL)")
	r.dial()
	return r
}

// dial gives the rig its plain client.
func (r *rig) dial() {
	r.Helper()
	var err error
	r.conn, err = amqp.Dial(r.broker)
	r.must(err)
	r.Cleanup(func() { _ = r.conn.Close() })
	r.raw, err = r.conn.Channel()
	r.must(err)
	r.must(r.raw.Confirm(false))
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// pool of connections to the database.
func (r *rig) pool(size int) *sql.DB {
	r.Helper()
	db, err := sql.Open("postgres", r.database)
	r.must(err)
	r.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return db
}

func (r *rig) exec(statement string) {
	r.Helper()
	_, err := r.db.ExecContext(r.Context(), statement)
	r.must(err)
}

func (r *rig) count(query string) (n int) {
	r.Helper()
	r.must(r.db.QueryRowContext(r.Context(), query).Scan(&n))
	return n
}

// effects checks the number of effects and that of the claims with them.
func (r *rig) effects(want int) {
	r.Helper()
	if got := r.count("SELECT count(*) FROM effects"); got != want {
		r.Errorf("%d effects, want %d", got, want)
	}
	if got := r.count("SELECT count(DISTINCT name) FROM effects"); got != want {
		r.Errorf("%d different effects, want %d", got, want)
	}
	if got := r.count("SELECT count(*) FROM processed_messages"); got != want {
		r.Errorf("%d claims, want %d", got, want)
	}
}

// events counts what the inbox's hooks told.
type events struct {
	mu  sync.Mutex
	all []inbox.Event
}

func (e *events) hooks() inbox.Hooks {
	return inbox.Hooks{Done: func(_ context.Context, ev inbox.Event) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all = append(e.all, ev)
	}}
}

func (e *events) of(o inbox.Outcome) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.all {
		if ev.Outcome == o {
			n++
		}
	}
	return n
}

func (e *events) total() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.all)
}

// box opens an inbox of a service on a pool of its own.
func (r *rig) box(service string, size int, e *events) *inbox.Inbox {
	r.Helper()
	b, err := pginbox.Open(r.Context(), r.pool(size), pginbox.Config{Config: inbox.Config{Service: service, Hooks: e.hooks(), Logger: r.log.logger()}})
	r.must(err)
	return b
}

// quick are retry queues that a test can wait for.
func quick() *rabbit.Topology {
	return &rabbit.Topology{RetrySteps: []time.Duration{100 * time.Millisecond, 300 * time.Millisecond}}
}

// start runs a service with one handler, see run.
func (r *rig) start(b *inbox.Inbox, c router.Config, h message.NoPublishHandlerFunc) (stop func()) {
	r.Helper()
	return r.run(r.service(b, c, h))
}

// run runs a service until the end of the test, and returns when it consumes.
func (r *rig) run(svc *router.Router) (stop func()) {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				r.Errorf("run: %v", err)
			}
		case <-time.After(patience):
			r.Errorf("the service does not end")
		}
	})
	r.Cleanup(stop)
	select {
	case <-svc.Watermill().Running():
	case err := <-done:
		done <- err
		r.Fatalf("run: %v", err)
	case <-time.After(patience):
		r.Fatal("the service does not start")
	}
	return stop
}

func (r *rig) service(b *inbox.Inbox, c router.Config, h message.NoPublishHandlerFunc) *router.Router {
	r.Helper()
	if c.Logger == nil {
		c.Logger = r.log.logger()
	}
	if c.CloseTimeout == 0 {
		c.CloseTimeout = 5 * time.Second
	}
	svc, err := router.New(r.broker, b, c)
	r.must(err)
	r.must(svc.Handle(queue, h))
	return svc
}

// refused runs a service that must not start and returns the reason.
func (r *rig) refused(svc *router.Router) error {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := svc.Run(ctx)
	if err == nil {
		r.Fatal("the service ran, want a refusal")
	}
	return err
}

// says checks that a text for an operator holds all words.
func (r *rig) says(text string, words ...string) {
	r.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			r.Errorf("%q does not say %q", text, w)
		}
	}
}

// effect is a handler that writes one row, named by the payload.
func effect(msg *message.Message) error {
	tx, err := inbox.Tx(msg.Context())
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(msg.Context(), "INSERT INTO effects VALUES ($1)", string(msg.Payload))
	return err
}

// declare makes queues without arguments but that they are quorum queues.
func (r *rig) declare(names ...string) {
	r.Helper()
	for _, name := range names {
		_, err := r.raw.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
		r.must(err)
	}
}

// send publishes with the plain client and waits for the confirm.
func (r *rig) send(p amqp.Publishing) {
	r.Helper()
	r.must(r.trySend(p))
}

func (r *rig) trySend(p amqp.Publishing) error {
	p.DeliveryMode = amqp.Persistent
	c, err := r.raw.PublishWithDeferredConfirmWithContext(r.Context(), "", queue, true, false, p)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	if ok, err := c.WaitContext(ctx); err != nil || !ok {
		return fmt.Errorf("publish: not confirmed: %w", err)
	}
	return nil
}

func event(id, body string) amqp.Publishing {
	return amqp.Publishing{Headers: amqp.Table{"event_id": id}, Body: []byte(body)}
}

// sendEvents sends copies of n events, one round after the other.
func (r *rig) sendEvents(n, copies int) {
	r.Helper()
	for range copies {
		for i := range n {
			r.send(event(fmt.Sprintf("event-%d", i), fmt.Sprintf("effect-%d", i)))
		}
	}
}

// channel opens another one, for what may end it with an error.
func (r *rig) channel() (*amqp.Channel, error) { return r.conn.Channel() }

// ready counts the messages of a queue that nobody holds.
func (r *rig) ready(name string) int {
	r.Helper()
	q, err := r.raw.QueueDeclarePassive(name, true, false, false, false, nil)
	r.must(err)
	return q.Messages
}

// letter takes one from the DLQ.
func (r *rig) letter() amqp.Delivery {
	r.Helper()
	var d amqp.Delivery
	r.eventually("a letter comes", func() bool {
		var ok bool
		var err error
		d, ok, err = r.raw.Get(rabbit.DeadLetterQueue(queue), true)
		r.must(err)
		return ok
	})
	return d
}

// nothingLeft checks, after the consumers ended, that the queue and its DLQ are
// empty.
func (r *rig) nothingLeft() {
	r.Helper()
	for _, name := range []string{queue, rabbit.DeadLetterQueue(queue)} {
		if n := r.ready(name); n != 0 {
			r.Errorf("%d messages in %s, want none", n, name)
		}
	}
}

func (r *rig) eventually(what string, f func() bool) {
	r.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-limit:
			r.Fatalf("did not happen in %s: %s", patience, what)
		}
	}
}

// recorder keeps what was logged.
type recorder struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{}
}

func (l *recorder) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (l *recorder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.text.Write(p)
}

func (l *recorder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// logged waits for a line with all words and returns it.
func (r *rig) logged(words ...string) string {
	r.Helper()
	limit := time.After(patience)
	for {
		r.log.mu.Lock()
		text, changed := r.log.text.String(), r.log.changed
		r.log.mu.Unlock()
	lines:
		for line := range strings.Lines(text) {
			for _, w := range words {
				if !strings.Contains(line, w) {
					continue lines
				}
			}
			return line
		}
		select {
		case <-changed:
		case <-limit:
			r.Fatalf("no line of the log says all of %q", words)
		}
	}
}

// config checks that an error has class Config.
func (r *rig) config(err error) {
	r.Helper()
	if c := inbox.ClassOf(err); c != inbox.ClassConfig {
		r.Errorf("class %s, want config: %v", c, err)
	}
}

var errHandler = errors.New("the handler does not like it")
