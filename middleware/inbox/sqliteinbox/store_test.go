package sqliteinbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/sqliteinbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	registryTable = `CREATE TABLE sekali_consumers (name TEXT PRIMARY KEY, service TEXT, queue TEXT, key_rule TEXT, mode TEXT, horizon INTEGER DEFAULT 0, former_names TEXT)`
	plainTable    = `CREATE TABLE processed_messages (consumer_name VARCHAR(100) NOT NULL, message_key VARCHAR(200) NOT NULL,
		processed_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (consumer_name, message_key))`
)

func exec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// Every reason why claims in a live table would not hold is refused at start.
func TestOpenRefusesTables(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ table, want string }{
		"no table":           {"SELECT 1", "sqliteinbox.Migrate"},
		"no key":             {strings.Replace(plainTable, ", PRIMARY KEY (consumer_name, message_key)", "", 1), "no unique key on exactly"},
		"key of one column":  {strings.Replace(plainTable, "(consumer_name, message_key))", "(message_key))", 1), "another unique key"},
		"one more key":       {plainTable + "; CREATE UNIQUE INDEX i ON processed_messages (processed_at)", "another unique key"},
		"partial key":        {strings.Replace(plainTable, ", PRIMARY KEY (consumer_name, message_key)", "", 1) + "; CREATE UNIQUE INDEX i ON processed_messages (consumer_name, message_key) WHERE processed_at > 0", "another unique key"},
		"key of expressions": {strings.Replace(plainTable, ", PRIMARY KEY (consumer_name, message_key)", "", 1) + "; CREATE UNIQUE INDEX i ON processed_messages (consumer_name, lower(message_key))", "another unique key"},
		"folding collation":  {strings.Replace(plainTable, "VARCHAR(200)", "TEXT COLLATE NOCASE", 1), "collation NOCASE"},
		"trimming collation": {strings.Replace(plainTable, "VARCHAR(200)", "TEXT COLLATE RTRIM", 1), "collation RTRIM"},
		"nullable key":       {strings.Replace(plainTable, "VARCHAR(200) NOT NULL", "VARCHAR(200)", 1), "may be NULL"},
		"number as key":      {strings.Replace(plainTable, "VARCHAR(200)", "NUMERIC", 1), "turns keys like 007 into numbers"},
		"no time":            {strings.Replace(plainTable, "processed_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, ", "", 1), "Config.Already"},
		"time without default": {
			strings.Replace(plainTable, " DEFAULT CURRENT_TIMESTAMP", "", 1), "has no default",
		},
		"one more column": {strings.Replace(plainTable, "processed_at", "tenant INTEGER NOT NULL, processed_at", 1), "NOT NULL without a default"},
		"view":            {"CREATE VIEW processed_messages AS SELECT 1 AS consumer_name", "is a view"},
		"trigger":         {plainTable + "; CREATE TRIGGER eat BEFORE INSERT ON processed_messages BEGIN SELECT RAISE(IGNORE); END", "trigger eat"},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t, sqliteinbox.DSN(filepath.Join(t.TempDir(), "a.db")))
			exec(t, db, registryTable, c.table)
			_, err := sqliteinbox.Open(t.Context(), db, sqliteinbox.Config{})
			if inbox.ClassOf(err) != inbox.ClassConfig || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if n := strings.Count(err.Error(), "open sqliteinbox:"); n != 1 {
				t.Errorf("%v names its operation %d times", err, n)
			}
		})
	}
}

// Settings under which a commit may be forgotten are refused, unless allowed by
// name; so is a busy_timeout of 0. What counts is a fresh connection.
func TestOpenRefusesSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pragmas []string
		want    string // "" is taken
		allowed bool   // with AllowLossOnPowerFailure
	}{
		{[]string{"busy_timeout(1000)", "journal_mode(WAL)", "synchronous(FULL)"}, "", true},
		{[]string{"busy_timeout(1000)", "journal_mode(WAL)", "synchronous(NORMAL)"}, "synchronous is below FULL", true},
		{[]string{"busy_timeout(1000)", "journal_mode(TRUNCATE)", "synchronous(FULL)"}, "", true},
		{[]string{"busy_timeout(1000)", "journal_mode(DELETE)", "synchronous(FULL)"}, "journal_mode is DELETE", true},
		{[]string{"busy_timeout(1000)", "journal_mode(DELETE)", "synchronous(EXTRA)"}, "", true},
		{[]string{"busy_timeout(1000)", "journal_mode(MEMORY)", "synchronous(FULL)"}, "journal_mode is MEMORY", true},
		{[]string{"busy_timeout(1000)", "journal_mode(OFF)", "synchronous(FULL)"}, "journal_mode is OFF", true},
		{[]string{"journal_mode(WAL)", "synchronous(FULL)"}, "busy_timeout is 0", false},
		{[]string{"busy_timeout(1000)", "journal_mode(WAL)", "synchronous(FULL)", "query_only(1)"}, "query_only is on", false},
	} {
		file := filepath.Join(t.TempDir(), "a.db")
		first := open(t, sqliteinbox.DSN(file))
		if err := errors.Join(sqliteinbox.Migrate(t.Context(), first, sqliteinbox.Config{}), first.Close()); err != nil {
			t.Fatal(err)
		}
		db := open(t, "file:"+file+"?_pragma="+strings.Join(c.pragmas, "&_pragma="))
		// An idle connection that was given better settings proves nothing.
		exec(t, db, "PRAGMA busy_timeout = 1000", "PRAGMA synchronous = EXTRA")
		_, err := sqliteinbox.Open(t.Context(), db, sqliteinbox.Config{})
		if (err == nil) != (c.want == "") || err != nil && (inbox.ClassOf(err) != inbox.ClassConfig || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.pragmas, err, c.want)
		}
		if _, err := sqliteinbox.Open(t.Context(), db, sqliteinbox.Config{AllowLossOnPowerFailure: true}); (err == nil) != c.allowed {
			t.Errorf("%v, allowed: %v", c.pragmas, err)
		}
	}
}

// A database in memory belongs to one connection.
func TestMemory(t *testing.T) {
	t.Parallel()
	db := open(t, "file::memory:?_pragma=busy_timeout(1000)")
	c := sqliteinbox.Config{AllowLossOnPowerFailure: true}
	if err := sqliteinbox.Migrate(t.Context(), db, c); err != nil {
		t.Fatal(err)
	}
	if _, err := sqliteinbox.Open(t.Context(), db, c); inbox.ClassOf(err) != inbox.ClassConfig || !strings.Contains(err.Error(), "SetMaxOpenConns(1)") {
		t.Errorf("a pool on a database in memory: %v", err)
	}
	one := open(t, "file::memory:?_pragma=busy_timeout(1000)")
	one.SetMaxOpenConns(1)
	if err := sqliteinbox.Migrate(t.Context(), one, c); err != nil {
		t.Fatal(err)
	}
	box, err := sqliteinbox.Open(t.Context(), one, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	if out, err := box.Do(t.Context(), inbox.Claim{Consumer: "c", Key: "k"}, func(context.Context) error { return nil }); out != inbox.Processed {
		t.Errorf("%s, %v", out, err)
	}
}

// The plain table of three columns, with times as text, is adopted as it is.
func TestPlainTableIsAdopted(t *testing.T) {
	t.Parallel()
	db := open(t, sqliteinbox.DSN(filepath.Join(t.TempDir(), "a.db")))
	exec(t, db, plainTable, `INSERT INTO processed_messages (consumer_name, message_key) VALUES ('c', 'old')`)
	if err := sqliteinbox.Migrate(t.Context(), db, sqliteinbox.Config{}); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	box, err := sqliteinbox.Open(t.Context(), db, sqliteinbox.Config{Config: inbox.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "no fingerprint column") {
		t.Errorf("log %q", log.String())
	}
	if err := box.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	none := func(context.Context) error { return nil }
	for _, c := range []struct {
		key  string
		want inbox.Outcome
	}{{"old", inbox.Duplicate}, {"k", inbox.Processed}, {"k", inbox.Duplicate}} {
		if out, err := box.Do(t.Context(), inbox.Claim{Consumer: "c", Key: c.key, Fingerprint: inbox.Fingerprint(nil)}, none); out != c.want {
			t.Errorf("%s: %s, %v", c.key, out, err)
		}
	}
	recs, err := box.Lookup(t.Context(), inbox.Claim{Consumer: "c", Key: "old"})
	if err != nil || time.Since(recs[0].ProcessedAt).Abs() > time.Hour {
		t.Errorf("%+v, %v", recs, err)
	}
}

// The schema's text makes tables that Open takes without a word in the log.
func TestSchemaIsComplete(t *testing.T) {
	t.Parallel()
	db := open(t, sqliteinbox.DSN(filepath.Join(t.TempDir(), "with space?#%.db")))
	exec(t, db, sqliteinbox.Schema())
	var log bytes.Buffer
	if _, err := sqliteinbox.Open(t.Context(), db, sqliteinbox.Config{Config: inbox.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}); err != nil {
		t.Fatal(err)
	}
	if log.Len() > 0 {
		t.Errorf("log %q", log.String())
	}
}

// Migrations that start together do not get into each other's way, and a table
// of another name has its own history.
func TestMigrate(t *testing.T) {
	t.Parallel()
	db := open(t, sqliteinbox.DSN(filepath.Join(t.TempDir(), "a.db")))
	done := make(chan error)
	const processes = 4
	for range processes {
		go func() { done <- sqliteinbox.Migrate(t.Context(), db, sqliteinbox.Config{}) }()
	}
	for range processes {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	other := sqliteinbox.Config{Table: `claims of "stock"`}
	if err := sqliteinbox.Migrate(t.Context(), db, other); err != nil {
		t.Fatal(err)
	}
	if _, err := sqliteinbox.Open(t.Context(), db, other); err != nil {
		t.Error(err)
	}
	if _, err := sqliteinbox.Open(t.Context(), db, sqliteinbox.Config{Table: "aux.claims"}); inbox.ClassOf(err) != inbox.ClassConfig {
		t.Errorf("attached database: %v", err)
	}
}

// boxOn opens an inbox with consumer "c" on a new file.
func boxOn(t *testing.T, c inbox.Config) (*inbox.Inbox, *sql.DB) {
	t.Helper()
	db := open(t, sqliteinbox.DSN(filepath.Join(t.TempDir(), "a.db")))
	if err := sqliteinbox.Migrate(t.Context(), db, sqliteinbox.Config{}); err != nil {
		t.Fatal(err)
	}
	box, err := sqliteinbox.Open(t.Context(), db, sqliteinbox.Config{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	return box, db
}

// A writer outside of the queue, as another process is, makes a claim wait, at
// most for LockWait: Later, a wait and no attempt.
func TestBusy(t *testing.T) {
	t.Parallel()
	box, db := boxOn(t, inbox.Config{LockWait: 50 * time.Millisecond})
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	c := inbox.Claim{Consumer: "c", Key: "k"}
	out, err := box.Do(t.Context(), c, func(context.Context) error {
		t.Error("the handler was called")
		return nil
	})
	if out != inbox.Later || inbox.ClassOf(err) != inbox.ClassTransient {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := conn.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	patient, err := sqliteinbox.Open(t.Context(), db, sqliteinbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := patient.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	if out, err := patient.Do(t.Context(), c, func(context.Context) error { return nil }); out != inbox.Processed {
		t.Errorf("%s, %v", out, err)
	}
}

// Errors that SQLite really gave get the class that says what to do.
func TestClasses(t *testing.T) {
	t.Parallel()
	box, db := boxOn(t, inbox.Config{})
	exec(t, db, `CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT NOT NULL CHECK (s <> 'bad'), r INTEGER REFERENCES t, u TEXT UNIQUE)`,
		`INSERT INTO t VALUES (1, 'a', NULL, 'u')`)
	send := func(ctx context.Context, s string) error {
		tx, err := inbox.Tx(ctx)
		if err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("handler: %w", err)
		}
		return nil
	}
	for i, c := range []struct {
		statement string
		want      inbox.Class
	}{
		{`INSERT INTO t VALUES (2, NULL, NULL, 'v')`, inbox.ClassPermanent},
		{`INSERT INTO t VALUES (2, 'bad', NULL, 'v')`, inbox.ClassPermanent},
		{`INSERT INTO t VALUES ('two', 'a', NULL, 'v')`, inbox.ClassPermanent},
		{`INSERT INTO t VALUES (1, 'a', NULL, 'v')`, inbox.ClassPlain},
		{`INSERT INTO t VALUES (2, 'a', NULL, 'u')`, inbox.ClassPlain},
		{`INSERT INTO t VALUES (2, 'a', 3, 'v')`, inbox.ClassPlain},
		{`SELEKT`, inbox.ClassPlain},
	} {
		out, err := box.Do(t.Context(), inbox.Claim{Consumer: "c", Key: fmt.Sprint(i)}, func(ctx context.Context) error { return send(ctx, c.statement) })
		if out != inbox.Failed || inbox.ClassOf(err) != c.want {
			t.Errorf("%s: %s, class %s, want %s: %v", c.statement, out, inbox.ClassOf(err), c.want, err)
		}
	}

	// A read transaction that has been overtaken by a writer: only a new one helps.
	old, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Rollback() }()
	var n int
	if err := old.QueryRowContext(t.Context(), `SELECT count(*) FROM t`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	exec(t, db, `INSERT INTO t VALUES (5, 'a', NULL, 'w')`)
	_, err = old.ExecContext(t.Context(), `INSERT INTO t VALUES (6, 'a', NULL, 'x')`)
	if err == nil || box.Class(err) != inbox.ClassTransient {
		t.Errorf("overtaken: class %s, %v", box.Class(err), err)
	}
}
