package dlq_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	_ "modernc.org/sqlite"

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/mysqlinbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/middleware/inbox/sqliteinbox"
)

// patience bounds what a test waits for; nothing should take that long.
const patience = 40 * time.Second

// database is one of those that letters are kept in, with an inbox in it.
type database struct {
	name string
	open func(t testing.TB) *sql.DB
	box  func(t testing.TB, db *sql.DB) (*inbox.Inbox, error)
	// mark of the first placeholder.
	mark string
	// aged puts the claims of a consumer that many days back.
	aged string
}

var databases = []database{
	{
		name: "postgres", mark: "$1",
		open: func(t testing.TB) *sql.DB { return pool(t, "postgres", testservices.NewPostgresDatabase(t)) },
		box:  postgresBox, aged: "UPDATE processed_messages SET processed_at = processed_at - INTERVAL '100 days'",
	},
	{
		name: "pgx", mark: "$1",
		open: func(t testing.TB) *sql.DB { return pool(t, "pgx", testservices.NewPostgresDatabase(t)) },
		box:  postgresBox, aged: "UPDATE processed_messages SET processed_at = processed_at - INTERVAL '100 days'",
	},
	{
		name: "mariadb", mark: "?",
		open: func(t testing.TB) *sql.DB { return pool(t, "mysql", testservices.NewMariaDBDatabase(t)) },
		box: func(t testing.TB, db *sql.DB) (*inbox.Inbox, error) {
			if err := mysqlinbox.Migrate(t.Context(), db, mysqlinbox.Config{}); err != nil {
				return nil, err
			}
			return mysqlinbox.Open(t.Context(), db, mysqlinbox.Config{Config: inbox.Config{Service: "test"}})
		},
		aged: "UPDATE processed_messages SET processed_at = processed_at - INTERVAL 100 DAY",
	},
	{
		name: "sqlite", mark: "?",
		open: func(t testing.TB) *sql.DB {
			return pool(t, "sqlite", sqliteinbox.DSN(filepath.Join(t.TempDir(), "letters.db")))
		},
		box: func(t testing.TB, db *sql.DB) (*inbox.Inbox, error) {
			if err := sqliteinbox.Migrate(t.Context(), db, sqliteinbox.Config{}); err != nil {
				return nil, err
			}
			return sqliteinbox.Open(t.Context(), db, sqliteinbox.Config{Config: inbox.Config{Service: "test"}})
		},
		aged: "UPDATE processed_messages SET processed_at = processed_at - 8640000000",
	},
}

// unsafeSQLite does not wait for the disk: for many letters in little time.
var unsafeSQLite = database{
	name: "sqlite, not synchronous", mark: "?",
	open: func(t testing.TB) *sql.DB {
		return pool(t, "sqlite", sqliteinbox.DSN(filepath.Join(t.TempDir(), "letters.db"))+"&_pragma=synchronous(OFF)")
	},
	box: func(t testing.TB, db *sql.DB) (*inbox.Inbox, error) {
		if err := sqliteinbox.Migrate(t.Context(), db, sqliteinbox.Config{}); err != nil {
			return nil, err
		}
		return sqliteinbox.Open(t.Context(), db, sqliteinbox.Config{Config: inbox.Config{Service: "test"}, AllowLossOnPowerFailure: true})
	},
}

func postgresBox(t testing.TB, db *sql.DB) (*inbox.Inbox, error) {
	if err := pginbox.Migrate(t.Context(), db, pginbox.Config{}); err != nil {
		return nil, err
	}
	return pginbox.Open(t.Context(), db, pginbox.Config{Config: inbox.Config{Service: "test"}})
}

func pool(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	return db
}

// each runs a test on every database, with one driver each.
func each(t *testing.T, f func(r *rig)) {
	t.Helper()
	for _, d := range databases {
		if d.name == "pgx" {
			continue
		}
		t.Run(d.name, func(t *testing.T) { f(newRig(t, d, dlq.Config{})) })
	}
}

// eachDriver runs a test on every database with every driver.
func eachDriver(t *testing.T, f func(r *rig)) {
	t.Helper()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) { f(newRig(t, d, dlq.Config{})) })
	}
}

// rig is letters and an inbox in one database, with a consumer for the queue
// "orders".
type rig struct {
	testing.TB

	of      database
	db      *sql.DB
	box     *inbox.Inbox
	config  dlq.Config
	letters *dlq.Letters
	log     *recorder
	collect message.NoPublishHandlerFunc
	pub     *publisher
}

const queue = "orders"

func newRig(t testing.TB, d database, c dlq.Config) *rig {
	t.Helper()
	r := &rig{TB: t, of: d, db: d.open(t), log: &recorder{}, pub: &publisher{}}
	var err error
	r.box, err = d.box(t, r.db)
	r.must(err)
	r.must(dlq.Migrate(t.Context(), r.db))
	if c.Inboxes == nil {
		c.Inboxes = map[string]*inbox.Inbox{"main": r.box}
	}
	c.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	r.config = c
	r.reopen()
	r.must(r.box.Register(t.Context(), inbox.Consumer{Name: queue, Queue: queue, KeyRule: inbox.DefaultKey.String()}))
	now := r.clock()
	for start := now; !now.After(start); now = r.clock() {
		runtime.Gosched() // an attempt at the horizon itself proves nothing
	}
	return r
}

// reopen is a process that starts.
func (r *rig) reopen() {
	r.Helper()
	var err error
	r.letters, err = dlq.Open(r.Context(), r.db, r.config)
	r.must(err)
	r.collect = r.letters.Collector(dlq.CollectorConfig{})
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// died makes the message that a consumer's stack puts into the dead letter queue:
// the attempt held the claim just now.
func (r *rig) died(key, body string, headers ...map[string]any) *message.Message {
	r.Helper()
	h := map[string]any{
		"event_id": key, letter.HeaderReason: "no stock", letter.HeaderConsumer: queue, letter.HeaderQueue: queue,
		letter.HeaderFingerprint: fmt.Sprintf("%x", inbox.Fingerprint([]byte(body))), letter.HeaderClaimedAt: r.clock().Format(time.RFC3339Nano),
		letter.HeaderAttempt: "10",
	}
	if key != "" {
		h[letter.HeaderLetterKey] = inbox.StoredKey(key)
	} else {
		delete(h, "event_id")
	}
	for _, more := range headers {
		for name, v := range more {
			if h[name] = v; v == nil {
				delete(h, name)
			}
		}
	}
	return delivered(queue+".dlq", &letter.Delivery{Headers: h, Body: []byte(body), Properties: letter.Properties{ContentType: "text/plain"}})
}

// delivered is a message as our AMQP subscriber hands it out.
func delivered(from string, d *letter.Delivery) *message.Message {
	d.Queue = from
	msg := message.NewMessage(d.Properties.MessageID, d.Body)
	for name, v := range d.Headers {
		if text, ok := letter.Text(v); ok {
			msg.Metadata[name] = text
		}
	}
	msg.SetContext(letter.WithDelivery(context.Background(), d))
	return msg
}

// clock of the inbox's database.
func (r *rig) clock() time.Time {
	r.Helper()
	s, err := r.box.Stats(r.Context(), queue)
	r.must(err)
	return s.Now.UTC()
}

// store collects messages and returns the newest letter.
func (r *rig) store(msgs ...*message.Message) *dlq.Letter {
	r.Helper()
	for _, m := range msgs {
		r.must(r.collect(m))
	}
	l, err := r.letters.List(r.Context(), dlq.Filter{Limit: 1}, dlq.NewestFirst, 0)
	r.must(err)
	return r.get(l[0].ID)
}

func (r *rig) get(id int64) *dlq.Letter {
	r.Helper()
	l, err := r.letters.Get(r.Context(), id)
	r.must(err)
	return l
}

// process commits the claim of a key, as a consumer would.
func (r *rig) process(key, body string) {
	r.Helper()
	var fingerprint []byte
	if body != "" {
		fingerprint = inbox.Fingerprint([]byte(body))
	}
	out, err := r.box.Do(r.Context(), inbox.Claim{Consumer: queue, Key: key, Fingerprint: fingerprint}, func(context.Context) error { return nil })
	r.must(err)
	if out != inbox.Processed {
		r.Fatalf("%s is %s", key, out)
	}
}

func (r *rig) judge(id int64) dlq.Judgement {
	r.Helper()
	js, err := r.letters.Judge(r.Context(), r.get(id))
	r.must(err)
	return js[0]
}

func (r *rig) count(f dlq.Filter) int64 {
	r.Helper()
	n, err := r.letters.Count(r.Context(), f)
	r.must(err)
	return n
}

// states of all letters, with their number.
func (r *rig) states() map[dlq.State]int64 {
	r.Helper()
	got := map[dlq.State]int64{}
	for _, s := range dlq.States() {
		if n := r.count(dlq.Filter{States: []dlq.State{s}}); n > 0 {
			got[s] = n
		}
	}
	return got
}

func (r *rig) want(id int64, s dlq.State) {
	r.Helper()
	if l := r.get(id); l.State != s {
		r.Errorf("letter %d is %s, want %s: %s", id, l.State, s, r.history(id))
	}
}

func (r *rig) history(id int64) string {
	r.Helper()
	events, err := r.letters.History(r.Context(), id)
	r.must(err)
	var words []string
	for _, e := range events {
		words = append(words, e.What)
	}
	return strings.Join(words, " ")
}

// all redrives as fast as it goes.
func all() dlq.RedriveConfig {
	return dlq.RedriveConfig{Filter: dlq.Filter{All: true}, Rate: -1, Lease: time.Second}
}

func (r *rig) redrive(c dlq.RedriveConfig) dlq.Run {
	r.Helper()
	run, err := r.letters.Redrive(r.Context(), r.pub, c)
	r.must(err)
	if run.State != dlq.Done {
		r.Fatalf("run is %s", run.State)
	}
	return run
}

var note = dlq.Note{Who: "ops", Why: "test"}

// publisher keeps what it confirms. It is the wire between a redrive and the test,
// which decides what becomes of each message.
type publisher struct {
	mu   sync.Mutex
	sent []*message.Message
	to   []string
	// answer decides; nil confirms. It may block or panic.
	answer func(queue string, m *message.Message) error
	// after is called for each confirmed message before the redrive hears of it.
	after func(queue string, m *message.Message)
}

func (p *publisher) PublishEach(_ context.Context, queue string, msgs ...*message.Message) []error {
	errs := make([]error, len(msgs))
	for i, m := range msgs {
		if p.answer != nil {
			errs[i] = p.answer(queue, m)
		}
		if errs[i] != nil {
			continue
		}
		p.mu.Lock()
		p.sent, p.to = append(p.sent, m), append(p.to, queue)
		p.mu.Unlock()
		if p.after != nil {
			p.after(queue, m)
		}
	}
	return errs
}

// take returns what was sent since the last take.
func (p *publisher) take() []*message.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.sent
	p.sent, p.to = nil, nil
	return out
}

// wire is the message as a consumer of the broker gets it: what rabbit's publisher
// makes of it.
func wire(m *message.Message) (letter.Properties, map[string]any) {
	d, ok := letter.FromContext(m.Context())
	if !ok {
		panic("the message has no delivery")
	}
	return letter.Outgoing(d, m.Metadata)
}

// again is a redriven message that died once more, in the same way.
func (r *rig) again(m *message.Message, key string) *message.Message {
	r.Helper()
	_, h := wire(m)
	body := string(m.Payload)
	h[letter.HeaderReason], h[letter.HeaderConsumer], h[letter.HeaderQueue] = "again", queue, queue
	h[letter.HeaderFingerprint] = fmt.Sprintf("%x", inbox.Fingerprint([]byte(body)))
	h[letter.HeaderClaimedAt] = r.clock().Format(time.RFC3339Nano)
	if key != "" {
		h[letter.HeaderLetterKey] = inbox.StoredKey(key)
	}
	return delivered(queue+".dlq", &letter.Delivery{Headers: h, Body: m.Payload})
}

var (
	errUnsent  = letter.FateError(letter.FateUnsent, "not sent")
	errRefused = letter.FateError(letter.FateRefused, "unroutable")
	errLost    = errors.New("the answer was lost")
)

// recorder keeps what was logged.
type recorder struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *recorder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *recorder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
