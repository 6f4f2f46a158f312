package pgxinbox_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pgxinbox"
)

func none(context.Context) error { return nil }

// The schema's text makes tables that Open takes without a word in the log, in
// every mode; names that need quotes work too.
func TestTablesAreTaken(t *testing.T) {
	for _, mode := range modes {
		pool := connect(t, testservices.NewPostgresDatabase(t), mode, 1)
		for _, statement := range []string{pgxinbox.Schema(), `CREATE SCHEMA "Odd Schema"`} {
			if _, err := pool.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		var log bytes.Buffer
		c := pgxinbox.Config{AllowLossOnCrash: true, Config: inbox.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
		for _, c.Table = range []string{"", "Claims of Stock", `Odd Schema.say "hi"`} {
			for range 2 {
				migrate(t, pool, c)
			}
			box := openOn(t, pool, c)
			if err := box.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
				t.Fatalf("%q: %v", c.Table, err)
			}
			if out, err := box.Do(t.Context(), inbox.Claim{Consumer: "c", Key: "k"}, none); out != inbox.Processed {
				t.Errorf("%q: %s, %v", c.Table, out, err)
			}
		}
		if log.Len() > 0 {
			t.Errorf("log %q", log.String())
		}
	}
}

// A set-up that is wrong is told at start, with what to do.
func TestOpenRefuses(t *testing.T) {
	pool := connect(t, testservices.NewPostgresDatabase(t), modes[0], 1)
	for want, c := range map[string]pgxinbox.Config{
		"pgxinbox.Migrate": {},
		"at most one dot":  {Table: "a.b.c"},
		"Isolation":        {Isolation: pgx.ReadUncommitted},
	} {
		if _, err := pgxinbox.Open(t.Context(), pool, c); inbox.ClassOf(err) != inbox.ClassConfig || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	migrate(t, pool, pgxinbox.Config{})
	if _, err := pool.Exec(t.Context(), "ALTER TABLE processed_messages SET UNLOGGED"); err != nil {
		t.Fatal(err)
	}
	if _, err := pgxinbox.Open(t.Context(), pool, pgxinbox.Config{}); inbox.ClassOf(err) != inbox.ClassConfig || !strings.Contains(err.Error(), "SET LOGGED") {
		t.Errorf("unlogged: %v", err)
	}
}

// A table without fingerprints is taken; a split claim that cannot be marked in it
// says so.
func TestPlainTableIsAdopted(t *testing.T) {
	b := newBench(t, modes[0])
	b.exec("ALTER TABLE processed_messages DROP COLUMN fingerprint")
	var log bytes.Buffer
	b.box = openOn(t, b.pool, pgxinbox.Config{Config: inbox.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	if !strings.Contains(log.String(), "no fingerprint column") {
		t.Errorf("log %q", log.String())
	}
	if err := b.box.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	c := inbox.Claim{Consumer: "c", Key: "k", Fingerprint: inbox.Fingerprint([]byte("a"))}
	for i, want := range []inbox.Outcome{inbox.Processed, inbox.Duplicate} {
		if out, err := b.box.Do(t.Context(), c, none); out != want {
			t.Errorf("do %d: %s, %v", i, out, err)
		}
	}
	if _, err := b.do("ends", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Conn().Exec(ctx, "COMMIT")
		return err
	}); err == nil || !strings.Contains(err.Error(), "fingerprint column") {
		t.Errorf("split: %v", err)
	}
}

// A database that is not there is an error that says so, without the password.
func TestOpenWithoutADatabase(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	pool := connect(t, "postgres://user:secret@"+addr+"/db?sslmode=disable", modes[0], 1)
	_, err = pgxinbox.Open(t.Context(), pool, pgxinbox.Config{})
	for what, err := range map[string]error{"open": err, "migrate": pgxinbox.Migrate(t.Context(), pool, pgxinbox.Config{})} {
		if inbox.ClassOf(err) != inbox.ClassDown || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: class %s, %v", what, inbox.ClassOf(err), err)
		}
	}
}
