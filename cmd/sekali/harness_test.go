package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/source"
	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// result of one call of the command.
type result struct {
	t            *testing.T
	args         []string
	exit         int
	out, errText string
	both         string // as a terminal shows it
}

// caller calls the command with an environment, and looks through all that it
// prints for credentials.
type caller struct {
	t   *testing.T
	env []string
	// asks and answers make a terminal of standard input.
	asks    bool
	answers string
}

func (c caller) call(args ...string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	return c.callContext(ctx, args...)
}

func (c caller) callContext(ctx context.Context, args ...string) result {
	c.t.Helper()
	var out, errOut, both bytes.Buffer
	a := newApp(strings.NewReader(c.answers), io.MultiWriter(&out, &both), io.MultiWriter(&errOut, &both), c.env)
	if c.asks {
		a.asksThere = func() bool { return true }
	}
	r := result{t: c.t, args: args, exit: a.run(ctx, args)}
	r.out, r.errText, r.both = out.String(), errOut.String(), both.String()
	for _, secret := range c.secrets(args) {
		if strings.Contains(r.out, secret) || strings.Contains(r.errText, secret) {
			c.t.Errorf("sekali %s printed a password:\n%s%s", strings.Join(args, " "), r.out, r.errText)
		}
	}
	return r
}

// secrets in the arguments and the environment: passwords, and whole URLs.
func (c caller) secrets(args []string) (all []string) {
	for _, text := range append(append([]string(nil), args...), c.env...) {
		_, dsn, _ := strings.Cut(text, "=")
		for _, candidate := range []string{text, dsn} {
			if u, err := url.Parse(candidate); err == nil {
				if password, ok := u.User.Password(); ok && password != "" {
					all = append(all, password, candidate)
				}
			}
			if m, err := mysql.ParseDSN(candidate); err == nil && m.Passwd != "" {
				all = append(all, m.Passwd, candidate)
			}
		}
	}
	return all
}

// wants the exit code, and words of what was printed on either stream.
func (r result) wants(exit int, words ...string) result {
	r.t.Helper()
	if r.exit != exit {
		r.t.Fatalf("sekali %s ended with %d, want %d\n%s%s", strings.Join(r.args, " "), r.exit, exit, r.out, r.errText)
	}
	for _, w := range words {
		if !strings.Contains(r.out+r.errText, w) {
			r.t.Errorf("sekali %s does not say %q:\n%s%s", strings.Join(r.args, " "), w, r.out, r.errText)
		}
	}
	return r
}

// lines of JSON.
func (r result) lines() (all []map[string]any) {
	r.t.Helper()
	for line := range strings.Lines(r.out) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			r.t.Fatalf("sekali %s printed a line that is no JSON object: %v\n%s", strings.Join(r.args, " "), err, line)
		}
		all = append(all, object)
	}
	return all
}

// line is the only one.
func (r result) line() map[string]any {
	r.t.Helper()
	all := r.lines()
	if len(all) != 1 {
		r.t.Fatalf("sekali %s printed %d lines, want one:\n%s%s", strings.Join(r.args, " "), len(all), r.out, r.errText)
	}
	return all[0]
}

// place is one kind of database.
type place struct {
	name string
	dsn  func(t *testing.T) string
	// aged makes claims of a key old.
	aged string
}

var places = []place{
	{"SQLite", func(t *testing.T) string { return filepath.Join(t.TempDir(), "shop.db") },
		"UPDATE processed_messages SET processed_at = processed_at - 2 * 24 * 3600 * 1000 WHERE message_key = 'old'"},
	{"PostgreSQL", func(t *testing.T) string { return testservices.NewPostgresDatabase(t) },
		"UPDATE processed_messages SET processed_at = processed_at - interval '2 days' WHERE message_key = 'old'"},
	{"MariaDB", func(t *testing.T) string { return testservices.NewMariaDBDatabase(t) },
		"UPDATE processed_messages SET processed_at = processed_at - INTERVAL 2 DAY WHERE message_key = 'old'"},
}

// everywhere runs a test on each kind of database.
func everywhere(t *testing.T, test func(t *testing.T, s *shop)) {
	t.Helper()
	atEvery(t, func(t *testing.T, p place) { test(t, newShop(t, p)) })
}

func atEvery(t *testing.T, test func(t *testing.T, p place)) {
	t.Helper()
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) { test(t, p) })
	}
}

// shop is a service's database with an inbox, as the service sees it.
type shop struct {
	t     *testing.T
	place place
	dsn   string
	db    *sql.DB
	box   *inbox.Inbox
	caller
}

func newShop(t *testing.T, p place) *shop {
	t.Helper()
	s := &shop{t: t, place: p, dsn: p.dsn(t)}
	s.caller = caller{t: t, env: []string{"SEKALI_INBOX=stock=" + s.dsn, "SEKALI_WHO=ada"}}
	s.call("inbox", "migrate").wants(exitDone, "Inbox stock: the tables are there")
	src := s.connect()
	var err error
	if s.box, err = src.Inbox(t.Context(), s.db, source.Options{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// connect opens the pool; it is closed at the end of the test, after its cleanup
// functions.
func (s *shop) connect() source.Source {
	s.t.Helper()
	src, err := source.Parse("test", s.dsn)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.db, err = src.Open(context.Background(), false); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.db.Close() })
	return src
}

func (s *shop) register(names ...string) {
	s.t.Helper()
	for _, name := range names {
		if err := s.box.Register(s.t.Context(), inbox.Consumer{Name: name, Service: "shop", Queue: name, KeyRule: "header:event_id"}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// process messages of these keys.
func (s *shop) process(consumer string, keys ...string) {
	s.t.Helper()
	for _, key := range keys {
		out, err := s.box.Do(s.t.Context(), inbox.Claim{Consumer: consumer, Key: key, Fingerprint: inbox.Fingerprint([]byte(key))}, func(context.Context) error { return nil })
		if err != nil || out != inbox.Processed {
			s.t.Fatalf("process %s: %v, %v", key, out, err)
		}
	}
}

func (s *shop) exec(statement string) {
	s.t.Helper()
	if _, err := s.db.ExecContext(context.Background(), statement); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) claimed(consumer, key string) bool {
	s.t.Helper()
	records, err := s.box.Lookup(s.t.Context(), inbox.Claim{Consumer: consumer, Key: key})
	if err != nil {
		s.t.Fatal(err)
	}
	return records[0].Found
}

// held tells whether a run of the consumer is refused by a hold.
func (s *shop) held(consumer string) bool {
	s.t.Helper()
	row, ok, err := s.box.Consumer(s.t.Context(), consumer)
	if err != nil || !ok {
		s.t.Fatalf("consumer %s: %v, %v", consumer, ok, err)
	}
	return row.Held()
}
