package router_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	_ "github.com/go-sql-driver/mysql"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/mysqlinbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/router"
)

// outageVariable is how long the database of TestDatabaseAwayForAWhile is away;
// the load lasts three times as long. Defaults to 1s, which CI can afford; 20s
// shows more.
const outageVariable = "SEKALI_TEST_OUTAGE"

func outageLength(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(outageVariable)
	if text == "" {
		return time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("%s is %q: want a duration like 20s", outageVariable, text)
	}
	return d
}

// A database that is away in the middle third of a load: what comes meanwhile is
// held and processed afterwards. No letters, no attempts, and no more waits than
// the probes of one consumer.
func TestDatabaseAwayForAWhile(t *testing.T) {
	testservices.RabbitMQ(t)
	const concurrency = 8
	for _, service := range []string{"postgres", "mariadb"} {
		t.Run(service, func(t *testing.T) {
			away := outageLength(t)
			server := testservices.Start(t, service)
			var e events
			db := awayDatabase(t, server, service)
			box := awayBox(t, db, service, e.hooks())
			log := &recorder{changed: make(chan struct{})}
			r := &rig{TB: t, broker: testservices.NewVirtualHost(t), db: db, log: log}
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("log:\n%s", log)
				}
			})
			r.dial()
			var calls atomic.Int64
			stop := r.start(box, router.Config{Topology: quick(), Concurrency: concurrency}, func(msg *message.Message) error {
				calls.Add(1)
				tx, err := inbox.Tx(msg.Context())
				if err != nil {
					return err
				}
				_, err = tx.ExecContext(msg.Context(), "INSERT INTO effects VALUES ('"+string(msg.Payload)+"')")
				return err
			})

			sent := r.load(0, away)
			server.Stop()
			before, called := e.total(), calls.Load()
			sent += r.load(sent, away)
			waits, meanwhile := e.total()-before, calls.Load()-called
			server.Start()
			sent += r.load(sent, away)
			r.eventually("all events took effect", func() bool { return r.count("SELECT count(*) FROM processed_messages") == sent })
			r.eventually("the queue is empty", func() bool { return r.ready(queue) == 0 })
			stop()

			attempts, allWaits, highest := e.judge()
			t.Logf("%s away for %s: %d events; failed attempts %d, highest attempt %d; waits %d, of them %d while it was away, with %d calls of the handler",
				service, away, sent, attempts, highest, allWaits, waits, meanwhile)
			if attempts != 0 || highest != 1 {
				t.Errorf("%d failed attempts, highest %d: an outage is no attempt", attempts, highest)
			}
			// Each of those under way fails once, perhaps once more when it finds a
			// connection that died idle; then one probe a backoff step, 5 s at most and
			// half of that on the average.
			const underWay, early = 2 * concurrency, 12
			if most := underWay + early + int(away/time.Second); allWaits > most {
				t.Errorf("%d waits, want at most %d", allWaits, most)
			}
			r.effects(sent)
			r.nothingLeft()
		})
	}
}

// awayDatabase is a pool on an empty schema with the table of the effects.
func awayDatabase(t *testing.T, server *testservices.Server, service string) *sql.DB {
	t.Helper()
	driver := map[string]string{"postgres": "postgres", "mariadb": "mysql"}[service]
	db, err := sql.Open(driver, server.NewDatabase())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	const size = 12
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	if service == "mariadb" {
		err = mysqlinbox.Migrate(t.Context(), db, mysqlinbox.Config{})
	} else {
		err = pginbox.Migrate(t.Context(), db, pginbox.Config{})
	}
	if err != nil {
		t.Fatal(err)
	}
	// No key, so that a second effect is seen.
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE effects (name VARCHAR(100) NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	return db
}

func awayBox(t *testing.T, db *sql.DB, service string, hooks inbox.Hooks) *inbox.Inbox {
	t.Helper()
	c := inbox.Config{Service: "test", Hooks: hooks}
	var box *inbox.Inbox
	var err error
	if service == "mariadb" {
		box, err = mysqlinbox.Open(t.Context(), db, mysqlinbox.Config{Config: c})
	} else {
		box, err = pginbox.Open(t.Context(), db, pginbox.Config{Config: c})
	}
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// load sends an event every 20 ms for d, numbered from first, and tells how many.
func (r *rig) load(first int, d time.Duration) (n int) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), d)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return n
		case <-tick.C:
			r.send(event(fmt.Sprintf("event-%d", first+n), fmt.Sprintf("effect-%d", first+n)))
			n++
		}
	}
}

// judge counts failed attempts (the handler itself failed) and waits (all else
// that was no success), and tells the highest number of an attempt.
func (e *events) judge() (attempts, waits, highest int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.all {
		highest = max(highest, ev.Attempt)
		if ev.Err == nil {
			continue
		}
		switch inbox.ClassOf(ev.Err) {
		case inbox.ClassPlain, inbox.ClassPermanent:
			attempts++
		default:
			waits++
		}
	}
	return attempts, waits, highest
}
