package crash

import (
	"context"
	"database/sql"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// patience bounds what a test waits for; nothing should take that long.
const patience = 40 * time.Second

var drivers = []string{"postgres", "pgx"}

// A consumer killed at any point leaves claim and effect both or none, and the
// message with the broker; the next consumer brings it to one effect.
func TestKilledConsumer(t *testing.T) {
	for _, crash := range []struct {
		name      string
		point     string // in the child
		hold      *holder
		committed bool
	}{
		{name: "before claim", point: beforeClaim},
		{name: "in handler", point: inHandler},
		{name: "before commit", hold: &holder{}},
		{name: "commit delivered, answer lost", hold: &holder{deliver: true}, committed: true},
		{name: "after commit, before ack", point: beforeAck, committed: true},
	} {
		for _, driver := range drivers {
			t.Run(crash.name+"/"+driver, func(t *testing.T) {
				w := newWorld(t, driver)
				first := w.settings
				first.Point = crash.point
				var h *holder
				if crash.hold != nil {
					h = &holder{deliver: crash.hold.deliver}
					first.Database = hold(t, first.Database, h)
				}
				victim := start(t, first)
				victim.says(ready)
				if h != nil {
					h.armed.Store(true)
				}
				w.publish()
				if crash.point == beforeAck {
					victim.says(inbox.Processed.String())
				}
				if h != nil {
					w.await("COMMIT to be held", h.held)
				} else {
					victim.says(crash.point)
				}
				victim.kill()

				want := 0
				if crash.committed {
					want = 1
				}
				w.left(want)
				w.queued(1)

				outcome := inbox.Processed
				if crash.committed {
					outcome = inbox.Duplicate
				}
				next := start(t, w.settings)
				next.says(ready, outcome.String())
				next.stop()
				w.left(1)
				w.queued(0)
			})
		}
	}
}

// While the server has not noticed the death of a consumer, that one's
// transaction holds the claim: the next consumer waits for its end and only then
// decides.
func TestNextConsumerWaitsForTheTransactionOfADeadOne(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			w := newWorld(t, driver)
			h := &holder{outlive: true}
			first := w.settings
			first.Database = hold(t, first.Database, h)
			victim := start(t, first)
			victim.says(ready)
			h.armed.Store(true)
			w.publish()
			w.await("COMMIT to be held", h.held)
			victim.kill()

			next := start(t, w.settings)
			next.says(ready)
			w.eventually("the claim of the next consumer waits for a lock", func() bool {
				var n int
				must(t, w.db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity
					WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%processed_messages%' AND pid <> pg_backend_pid()`).Scan(&n))
				return n == 1
			})
			h.release()
			next.says(inbox.Processed.String())
			next.stop()
			w.left(1)
			w.queued(0)
		})
	}
}

// world is a database and a virtual host of the test's own, with plain clients.
type world struct {
	t        *testing.T
	db       *sql.DB
	raw      *amqp.Channel
	settings settings
}

func newWorld(t *testing.T, driver string) *world {
	t.Helper()
	w := &world{t: t, settings: settings{
		Driver: driver, Database: testservices.NewPostgresDatabase(t), Broker: testservices.NewVirtualHost(t), Queue: "orders.stock",
	}}
	var err error
	w.db, err = sql.Open(driver, w.settings.Database)
	must(t, err)
	t.Cleanup(func() { must(t, w.db.Close()) })
	must(t, pginbox.Migrate(t.Context(), w.db, pginbox.Config{}))
	// No key, so that a second effect is seen.
	_, err = w.db.ExecContext(t.Context(), "CREATE TABLE effects (payload TEXT NOT NULL)")
	must(t, err)
	conn, err := amqp.Dial(w.settings.Broker)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	w.raw, err = conn.Channel()
	must(t, err)
	return w
}

func (w *world) publish() {
	w.t.Helper()
	must(w.t, w.raw.PublishWithContext(w.t.Context(), "", w.settings.Queue, true, false, amqp.Publishing{
		DeliveryMode: amqp.Persistent, Headers: amqp.Table{"event_id": "order-1"}, Body: []byte("lamp"),
	}))
}

// left checks that claims and effects are n each, once open transactions have
// ended.
func (w *world) left(n int) {
	w.t.Helper()
	tx, err := w.db.BeginTx(w.t.Context(), nil)
	must(w.t, err)
	defer func() { _ = tx.Rollback() }()
	// A session that has died holds its locks until the server notices.
	_, err = tx.ExecContext(w.t.Context(), "LOCK TABLE processed_messages, effects IN ACCESS EXCLUSIVE MODE")
	must(w.t, err)
	for _, table := range []string{"processed_messages", "effects"} {
		var got int
		must(w.t, tx.QueryRowContext(w.t.Context(), "SELECT count(*) FROM "+table).Scan(&got))
		if got != n {
			w.t.Errorf("%d rows in %s, want %d", got, table, n)
		}
	}
}

// queued waits until n messages are ready in the queue, and checks that there is
// no letter.
func (w *world) queued(n int) {
	w.t.Helper()
	w.eventually("messages in the queue are as many as they must be", func() bool { return w.ready(w.settings.Queue) == n })
	if letters := w.ready(rabbit.DeadLetterQueue(w.settings.Queue)); letters != 0 {
		w.t.Errorf("%d letters, want none", letters)
	}
}

func (w *world) ready(queue string) int {
	w.t.Helper()
	q, err := w.raw.QueueDeclarePassive(queue, true, false, false, false, nil)
	must(w.t, err)
	return q.Messages
}

func (w *world) await(what string, c <-chan struct{}) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	select {
	case <-c:
	case <-ctx.Done():
		w.t.Fatalf("still waiting for %s", what)
	}
}

func (w *world) eventually(what string, f func() bool) {
	w.t.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-limit:
			w.t.Fatalf("did not happen in %s: %s", patience, what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
