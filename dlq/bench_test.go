package dlq_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// seed makes n copies of the only letter, each with a key of its own.
func (r *rig) seed(n int) {
	r.Helper()
	r.store(r.died("seed", strings.Repeat("x", 500)))
	columns := "queue, source, consumer_name, no_key, fingerprint, guessed, body_print, reason, error_text, kind, shape, attempts, " +
		"first_failure, died_at, claimed_at, sent_key, size, amqp, envelope, body"
	statement := "INSERT INTO sekali_dead_letters (state, identity, content, token, message_key, collected_at, changed_at, " + columns + ") " +
		"SELECT 'waiting', 'seed-' || i, 'seed-' || i, 't', 'key-' || i, collected_at, changed_at, " + columns +
		" FROM sekali_dead_letters, generate_series(1, $1) i WHERE id = 1"
	if r.of.name != "postgres" {
		r.Fatal("letters are seeded on PostgreSQL")
	}
	r.exec(statement, n-1)
}

// BenchmarkRedrive compares a redrive with a loop that publishes each letter,
// waits for its confirm and marks it, in one run: see letters/s.
func BenchmarkRedrive(b *testing.B) {
	const n = 10_000
	b.Run("batches", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			r, pub := redriveRig(b, n)
			b.StartTimer()
			run, err := r.letters.Redrive(b.Context(), pub, dlq.RedriveConfig{Filter: dlq.Filter{All: true}, Rate: -1})
			if err != nil || run.Counts.Sent != n {
				b.Fatalf("%+v, %v", run.Counts, err)
			}
		}
		b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "letters/s")
	})
	b.Run("one by one", func(b *testing.B) {
		const n = 1000
		for b.Loop() {
			b.StopTimer()
			r, pub := redriveRig(b, n)
			b.StartTimer()
			r.oneByOne(pub)
		}
		b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "letters/s")
	})
}

func redriveRig(b testing.TB, n int) (*rig, *rabbit.Publisher) {
	b.Helper()
	r := newRig(b, databases[0], dlq.Config{})
	r.seed(n)
	r.exec("ANALYZE sekali_dead_letters")
	url := testservices.NewVirtualHost(b)
	raw, err := amqp.Dial(url)
	r.must(err)
	b.Cleanup(func() { _ = raw.Close() })
	ch, err := raw.Channel()
	r.must(err)
	_, err = ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	r.must(err)
	conn, err := rabbit.NewConnection(url, rabbit.ConnectionConfig{})
	r.must(err)
	b.Cleanup(func() { _ = conn.Close() })
	pub, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	r.must(err)
	b.Cleanup(func() { _ = pub.Close() })
	return r, pub.ToQueues()
}

// oneByOne is what a careful script does.
func (r *rig) oneByOne(pub *rabbit.Publisher) {
	r.Helper()
	ctx := context.Background()
	for l, err := range r.letters.Each(ctx, dlq.Filter{States: []dlq.State{dlq.Waiting}}, dlq.OldestFirst) {
		r.must(err)
		l, err := r.letters.Get(ctx, l.ID)
		r.must(err)
		recs, err := r.box.LookupStored(ctx, inbox.Claim{Consumer: l.Consumer, Key: l.Key})
		if r.must(err); recs[0].Found {
			continue
		}
		r.exec("UPDATE sekali_dead_letters SET state = 'sending', identity = NULL WHERE id = $1", l.ID)
		msg := message.NewMessage(l.Message.UUID, l.Message.Body)
		msg.SetContext(letter.WithDelivery(ctx, &letter.Delivery{Queue: l.Queue, Headers: l.Message.Headers, Body: l.Message.Body}))
		r.must(pub.PublishEach(ctx, l.Queue, msg)[0])
		r.exec("UPDATE sekali_dead_letters SET state = 'sent' WHERE id = $1", l.ID)
	}
}

// Two hundred thousand letters are listed and redriven in the memory of a page.
// SEKALI_LETTERS says how many.
func TestMemoryStaysFlatHoweverManyLettersThereAre(t *testing.T) {
	n := 3000
	if text := os.Getenv("SEKALI_LETTERS"); text != "" {
		if _, err := fmt.Sscan(text, &n); err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t, databases[0], dlq.Config{})
	r.seed(n)
	most := uint64(0)
	look := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapAlloc)
	}
	look()
	before := most
	seen := 0
	for _, err := range r.letters.Each(t.Context(), dlq.Filter{}, dlq.NewestFirst) {
		r.must(err)
		if seen++; seen%1000 == 0 {
			look()
		}
	}
	if seen != n {
		t.Errorf("saw %d of %d", seen, n)
	}
	start := time.Now()
	c := all()
	c.KeepGoing, c.Lease = true, time.Minute
	c.Progress = func(dlq.Run) { look() }
	run, err := r.letters.Redrive(t.Context(), forget{}, c)
	if r.must(err); run.Counts.Sent != int64(n) {
		t.Errorf("%+v", run.Counts)
	}
	t.Logf("%d letters in %s, heap %d KB before, %d KB at most", n, time.Since(start).Round(time.Millisecond), before>>10, most>>10)
	if most > before+64<<20 {
		t.Errorf("heap grew from %d to %d bytes", before, most)
	}
}

// forget is a publisher for as many letters as fit through it.
type forget struct{}

func (forget) PublishEach(_ context.Context, _ string, msgs ...*message.Message) []error {
	return make([]error, len(msgs))
}
