package rabbit_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	_ "modernc.org/sqlite"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/sqliteinbox"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// shop is an inbox with a table of effects.
func (r *rig) shop() (*inbox.Inbox, *sql.DB) {
	r.Helper()
	ctx := context.Background()
	// No test cuts the power: the disk need not be waited for.
	dsn := strings.Replace(sqliteinbox.DSN(filepath.Join(r.TempDir(), "shop.db")), "synchronous%28FULL%29", "synchronous%28OFF%29", 1)
	db, err := sql.Open("sqlite", dsn)
	r.must(err)
	r.Cleanup(func() { _ = db.Close() })
	r.must(sqliteinbox.Migrate(ctx, db, sqliteinbox.Config{}))
	_, err = db.Exec("CREATE TABLE effects (name TEXT NOT NULL)")
	r.must(err)
	box, err := sqliteinbox.Open(ctx, db, sqliteinbox.Config{AllowLossOnPowerFailure: true})
	r.must(err)
	return box, db
}

func effects(r *rig, db *sql.DB) (n int) {
	r.Helper()
	r.must(db.QueryRow("SELECT count(*) FROM effects").Scan(&n))
	return n
}

func write(ctx context.Context, d amqp.Delivery) error {
	tx, err := inbox.Tx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", string(d.Body))
	return err
}

func TestPlainLoopTakesEachMessageOnce(t *testing.T) {
	r := newRig(t)
	box, db := r.shop()
	q := r.queue(nil)
	dlq := rabbit.DeadLetterQueue(q)
	r.declare(dlq, nil)
	pub := r.publisher(rabbit.PublisherConfig{})
	handle, err := rabbit.Handle(context.Background(), box, rabbit.HandleConfig{
		Queue: q, Letters: pub, MaxAttempts: 2, InPlace: 2 * time.Second,
	}, func(ctx context.Context, d amqp.Delivery) error {
		if err := write(ctx, d); err != nil {
			return err
		}
		if table, ok := d.Headers["table"].(amqp.Table); ok && table["deep"] == nil {
			t.Errorf("the loop's own types were changed: %#v", d.Headers)
		}
		switch string(d.Body) {
		case "failing":
			return errors.New("no stock")
		case "panicking":
			panic("no stock")
		case "leaving":
			runtime.Goexit()
		}
		return nil
	})
	r.must(err)

	loop := r.channel()
	r.must(loop.Qos(8, 0, false))
	deliveries, err := loop.Consume(q, "loop", false, false, false, false, nil)
	r.must(err)
	var running sync.WaitGroup
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for d := range deliveries {
			running.Go(func() { handle(d) })
		}
	}()

	for range 5 {
		good := everything()
		good.Expiration = ""
		delete(good.Headers, "CC")
		good.Body = []byte("good")
		r.send(q, good)
	}
	r.send(q, amqp.Publishing{MessageId: "other", Body: []byte("other")})
	r.send(q, amqp.Publishing{Body: []byte("no key")})
	for _, name := range []string{"failing", "panicking", "leaving"} {
		r.send(q, amqp.Publishing{MessageId: name, Body: []byte(name), Headers: amqp.Table{"n": int32(7)}})
	}
	want := map[string]string{"no key": "key", "failing": "no stock", "panicking": "no stock", "leaving": "goroutine"}
	for range want {
		d, ok := r.get(dlq)
		if !ok {
			t.Fatal("a letter is missing")
		}
		name := string(d.Body)
		reason, _ := d.Headers[letter.HeaderReason].(string)
		if want[name] == "" || !strings.Contains(reason, want[name]) {
			t.Errorf("letter %q with reason %q", name, reason)
		}
		if d.Headers[letter.HeaderConsumer] != q || d.Headers[letter.HeaderQueue] != q {
			t.Errorf("letter %q does not tell its consumer and queue: %v", name, d.Headers)
		}
		if name == "failing" && (d.Headers["n"] != int32(7) || d.Headers[letter.HeaderAttempt] != "2" || d.Headers[letter.HeaderLetterKey] != "failing") {
			t.Errorf("letter %q: %v", name, d.Headers)
		}
	}
	r.eventually("all is settled", func() bool {
		q, err := r.raw.QueueDeclarePassive(q, true, false, false, false, nil)
		r.must(err)
		return q.Messages == 0 && effects(r, db) == 2
	})
	r.must(loop.Cancel("loop", false))
	<-stopped
	running.Wait()
	r.must(loop.Close())
	if n := effects(r, db); n != 2 {
		t.Errorf("%d effects, want one of each good message", n)
	}
	if n := r.ready(q); n != 0 {
		t.Errorf("%d messages were not settled", n)
	}
	handle(amqp.Delivery{}) // what a loop gets that does not look at ok
}

// The channel dies between the commit and the ack: the message comes again, the
// handler does not run again, and the late ack settles nothing.
func TestPlainLoopSurvivesADeadChannel(t *testing.T) {
	r := newRig(t)
	box, db := r.shop()
	q := r.queue(nil)
	r.declare(rabbit.DeadLetterQueue(q), nil)
	pub := r.publisher(rabbit.PublisherConfig{})
	loop := r.channel()
	runs := 0
	handle, err := rabbit.Handle(context.Background(), box, rabbit.HandleConfig{Queue: q, Letters: pub}, func(ctx context.Context, d amqp.Delivery) error {
		runs++
		if runs == 1 {
			r.must(loop.Close())
		}
		return write(ctx, d)
	})
	r.must(err)
	r.send(q, amqp.Publishing{MessageId: "m", Body: []byte("m")})
	take := func() (d amqp.Delivery) {
		r.eventually("the message comes", func() bool {
			var ok bool
			d, ok, err = loop.Get(q, false)
			r.must(err)
			return ok
		})
		return d
	}
	handle(take())
	loop = r.channel()
	handle(take())
	r.must(loop.Close())
	if n := effects(r, db); runs != 1 || n != 1 || r.ready(q) != 0 {
		t.Errorf("%d runs, %d effects, %d left", runs, n, r.ready(q))
	}
}

func TestHandleRefusesASecondQueueUnderOneName(t *testing.T) {
	r := newRig(t)
	box, _ := r.shop()
	r.declare("a.dlq", nil)
	r.declare("b.dlq", nil)
	pub := r.publisher(rabbit.PublisherConfig{})
	nothing := func(context.Context, amqp.Delivery) error { return nil }
	_, err := rabbit.Handle(context.Background(), box, rabbit.HandleConfig{Queue: "a", Consumer: "c", Letters: pub}, nothing)
	r.must(err)
	if _, err = rabbit.Handle(context.Background(), box, rabbit.HandleConfig{Queue: "b", Consumer: "c", Letters: pub}, nothing); err == nil {
		t.Error("two queues share one consumer name")
	}
	_, err = rabbit.Handle(context.Background(), nil, rabbit.HandleConfig{MaxAttempts: -1}, nil)
	for _, field := range []string{"Queue", "Letters", "MaxAttempts", "inbox", "handler"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named in: %v", field, err)
		}
	}
}

// Without its DLQ a loop would keep the first message that fails for ever.
func TestHandleRefusesToStartWithoutItsLetterQueue(t *testing.T) {
	r := newRig(t)
	box, _ := r.shop()
	q := r.queue(nil)
	c := rabbit.HandleConfig{Queue: q, Letters: r.publisher(rabbit.PublisherConfig{})}
	nothing := func(context.Context, amqp.Delivery) error { return nil }
	_, err := rabbit.Handle(context.Background(), box, c, nothing)
	if !errors.Is(err, rabbit.ErrNoQueue) || inbox.ClassOf(err) != inbox.ClassConfig {
		t.Fatalf("%v, want a missing queue", err)
	}
	for _, word := range []string{rabbit.DeadLetterQueue(q), "create it", "DeadLetterQueue"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
	r.declare("elsewhere", nil)
	c.DeadLetterQueue = func(string) string { return "elsewhere" }
	_, err = rabbit.Handle(context.Background(), box, c, nothing)
	r.must(err)
}
