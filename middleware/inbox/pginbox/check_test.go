package pginbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
)

const plainTable = `CREATE TABLE processed_messages (consumer_name VARCHAR(100) NOT NULL, message_key VARCHAR(200) NOT NULL,
	processed_at TIMESTAMPTZ NOT NULL DEFAULT now(), PRIMARY KEY (consumer_name, message_key))`

// Every reason why claims in a live table would not hold is refused at start,
// with a sentence that says what to do, and what it says works.
func TestOpenRefuses(t *testing.T) {
	const full = `CREATE TABLE processed_messages (consumer_name VARCHAR(100) NOT NULL, message_key VARCHAR(200) NOT NULL,
		processed_at TIMESTAMPTZ NOT NULL DEFAULT now(), fingerprint BYTEA`
	shared := testservices.NewPostgresDatabase(t)
	admin := open(t, "postgres", shared)
	for name, c := range map[string]struct {
		table string
		want  string // part of the sentence
		fix   string // "" when the table has to be made again
	}{
		"no table":          {"SELECT 1", "pginbox.Migrate", ""},
		"no key":            {full + ")", "no unique key on exactly", "ALTER TABLE processed_messages ADD PRIMARY KEY (consumer_name, message_key)"},
		"key of one column": {full + ", PRIMARY KEY (message_key))", "another unique key", ""},
		"key with the time": {full + ", PRIMARY KEY (consumer_name, message_key, processed_at))", "no unique key on exactly", ""},
		"partial key":       {full + "); CREATE UNIQUE INDEX ON processed_messages (consumer_name, message_key) WHERE fingerprint IS NULL", "another unique key", ""},
		"key of expressions": {
			full + "); CREATE UNIQUE INDEX ON processed_messages (consumer_name, lower(message_key))",
			"another unique key", "",
		},
		"deferrable key":       {full + ", PRIMARY KEY (consumer_name, message_key) DEFERRABLE)", "deferrable", ""},
		"one more key":         {full + ", PRIMARY KEY (consumer_name, message_key), UNIQUE (fingerprint))", "another unique key", "ALTER TABLE processed_messages DROP CONSTRAINT processed_messages_fingerprint_key"},
		"partitioned by time":  {full + ", PRIMARY KEY (consumer_name, message_key, processed_at)) PARTITION BY RANGE (processed_at)", "no unique key on exactly", ""},
		"folding collation":    {`CREATE COLLATION fold (provider = icu, locale = 'und-u-ks-level2', deterministic = false); ` + strings.Replace(full, "message_key VARCHAR(200)", "message_key VARCHAR(200) COLLATE fold", 1) + ", PRIMARY KEY (consumer_name, message_key))", "nondeterministic", `ALTER TABLE "processed_messages" ALTER COLUMN message_key TYPE varchar(200) COLLATE "C"`},
		"short key":            {strings.Replace(full, "VARCHAR(200)", "VARCHAR(64)", 1) + ", PRIMARY KEY (consumer_name, message_key))", "holds 64 characters", `ALTER TABLE "processed_messages" ALTER COLUMN message_key TYPE varchar(200)`},
		"padded key":           {strings.Replace(full, "VARCHAR(200)", "CHAR(200)", 1) + ", PRIMARY KEY (consumer_name, message_key))", "byte by byte", ""},
		"number as key":        {strings.Replace(full, "VARCHAR(200)", "BIGINT", 1) + ", PRIMARY KEY (consumer_name, message_key))", "byte by byte", ""},
		"nullable key":         {`CREATE TABLE processed_messages (consumer_name TEXT, message_key TEXT, processed_at TIMESTAMPTZ DEFAULT now(), UNIQUE (consumer_name, message_key))`, "may be NULL", `ALTER TABLE processed_messages ALTER consumer_name SET NOT NULL, ALTER message_key SET NOT NULL`},
		"time without zone":    {strings.Replace(full, "TIMESTAMPTZ", "TIMESTAMP", 1) + ", PRIMARY KEY (consumer_name, message_key))", "another moment in every time zone", `ALTER TABLE "processed_messages" ALTER COLUMN processed_at TYPE timestamptz USING processed_at AT TIME ZONE 'UTC'`},
		"time without default": {strings.Replace(full, "DEFAULT now()", "", 1) + ", PRIMARY KEY (consumer_name, message_key))", "no default", `ALTER TABLE "processed_messages" ALTER COLUMN processed_at SET DEFAULT CURRENT_TIMESTAMP`},
		"no time":              {`CREATE TABLE processed_messages (consumer_name TEXT, message_key TEXT, PRIMARY KEY (consumer_name, message_key))`, "Config.Already", ""},
		"one more column":      {full + ", tenant INT NOT NULL, PRIMARY KEY (consumer_name, message_key))", "NOT NULL without a default", `ALTER TABLE processed_messages ALTER tenant SET DEFAULT 0`},
		"fingerprint as text":  {strings.Replace(full, "BYTEA", "TEXT", 1) + ", PRIMARY KEY (consumer_name, message_key))", "fingerprint has type text", ""},
		"unlogged":             {strings.Replace(full, "CREATE", "CREATE UNLOGGED", 1) + ", PRIMARY KEY (consumer_name, message_key))", "unlogged", `ALTER TABLE "processed_messages" SET LOGGED`},
		"view":                 {"CREATE VIEW processed_messages AS SELECT 1 AS consumer_name", "is a view", ""},
		"trigger":              {full + `, PRIMARY KEY (consumer_name, message_key)); CREATE FUNCTION eat() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; CREATE TRIGGER eat BEFORE INSERT ON processed_messages FOR EACH ROW EXECUTE FUNCTION eat()`, "trigger eat", `DROP TRIGGER "eat" ON "processed_messages"`},
		"rule":                 {full + `, PRIMARY KEY (consumer_name, message_key)); CREATE RULE eat AS ON INSERT TO processed_messages DO INSTEAD NOTHING`, "rule eat", `DROP RULE "eat" ON "processed_messages"`},
		"row security":         {full + `, PRIMARY KEY (consumer_name, message_key)); ALTER TABLE processed_messages ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY`, "row security", `ALTER TABLE "processed_messages" DISABLE ROW LEVEL SECURITY`},
		"child table":          {full + `, PRIMARY KEY (consumer_name, message_key)); CREATE TABLE child () INHERITS (processed_messages)`, "child table child", `ALTER TABLE child NO INHERIT processed_messages`},
	} {
		t.Run(name, func(t *testing.T) {
			// A schema each: a database each takes its time.
			schema := testservices.Name(t)
			exec(t, admin, `CREATE SCHEMA `+schema)
			dsn := withOption(shared, "-csearch_path="+schema)
			db := open(t, "postgres", dsn)
			exec(t, db, registryTable, c.table)
			if name == "row security" {
				exec(t, db, `GRANT SELECT ON sekali_keeping TO PUBLIC`)
				db = asPlainUser(t, db, dsn)
			}
			_, err := pginbox.Open(t.Context(), db, pginbox.Config{})
			if inbox.ClassOf(err) != inbox.ClassConfig || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
			if n := strings.Count(err.Error(), "open pginbox:"); n != 1 {
				t.Errorf("%v names its operation %d times", err, n)
			}
			if c.fix == "" {
				return
			}
			exec(t, open(t, "postgres", dsn), c.fix)
			if _, err := pginbox.Open(t.Context(), db, pginbox.Config{}); err != nil {
				t.Errorf("after %s: %v", c.fix, err)
			}
		})
	}
}

const registryTable = `CREATE TABLE sekali_consumers (name TEXT PRIMARY KEY, service TEXT, queue TEXT, key_rule TEXT, mode TEXT, horizon TIMESTAMPTZ DEFAULT now(), former_names TEXT);
	CREATE TABLE sekali_keeping (consumer_name TEXT PRIMARY KEY, held_since TIMESTAMPTZ, held_by TEXT, held_why TEXT, purger TEXT, purger_until TIMESTAMPTZ);
	CREATE TABLE sekali_audit (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at TIMESTAMPTZ, who TEXT, why TEXT, act TEXT, consumer TEXT, message_key TEXT, detail TEXT)`

// asPlainUser gives the tables to a role that is no superuser and opens the
// database as it.
func asPlainUser(t *testing.T, db *sql.DB, dsn string) *sql.DB {
	t.Helper()
	role := testservices.Name(t)
	exec(t, db, `CREATE ROLE `+role+` LOGIN`, `GRANT `+role+` TO CURRENT_USER`,
		`ALTER TABLE processed_messages OWNER TO `+role, `ALTER TABLE sekali_consumers OWNER TO `+role)
	t.Cleanup(func() {
		db := open(t, "postgres", dsn)
		exec(t, db, `REASSIGN OWNED BY `+role+` TO CURRENT_USER`, `DROP OWNED BY `+role, `DROP ROLE `+role)
	})
	exec(t, db, `GRANT USAGE ON SCHEMA `+currentSchema(t, db)+` TO `+role)
	return open(t, "postgres", withOption(dsn, "-crole="+role))
}

func currentSchema(t *testing.T, db *sql.DB) (schema string) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), `SELECT quote_ident(current_schema)`).Scan(&schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

// withOption adds a command-line option of the session to a URL.
func withOption(raw, option string) string {
	u, err := url.Parse(raw)
	if err != nil {
		panic("parse the server's URL")
	}
	q := u.Query()
	q.Set("options", strings.TrimSpace(q.Get("options")+" "+option))
	u.RawQuery = q.Encode()
	return strings.ReplaceAll(u.String(), "+", "%20")
}

func exec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, err := db.ExecContext(ctx, s)
		cancel()
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// A missing privilege is named with the statement that gives it.
func TestOpenNamesMissingPrivileges(t *testing.T) {
	dsn := testservices.NewPostgresDatabase(t)
	admin := open(t, "postgres", dsn)
	exec(t, admin, plainTable, registryTable)
	db := asPlainUser(t, admin, dsn)
	role := testservices.Name(t)
	exec(t, admin, `ALTER TABLE processed_messages OWNER TO CURRENT_USER`)
	_, err := pginbox.Open(t.Context(), db, pginbox.Config{})
	if inbox.ClassOf(err) != inbox.ClassConfig || !strings.Contains(err.Error(), "GRANT SELECT, INSERT, UPDATE, DELETE ON") {
		t.Fatalf("error %v", err)
	}
	exec(t, admin, `GRANT SELECT, INSERT, UPDATE, DELETE ON processed_messages TO PUBLIC`)
	if _, err := pginbox.Open(t.Context(), db, pginbox.Config{}); inbox.ClassOf(err) != inbox.ClassConfig || !strings.Contains(err.Error(), "GRANT SELECT ON \"sekali_keeping\"") {
		t.Errorf("without a look at holds: %v", err)
	}
	exec(t, admin, `GRANT SELECT ON sekali_keeping TO PUBLIC`)
	if _, err := pginbox.Open(t.Context(), db, pginbox.Config{}); err != nil {
		t.Errorf("as %s: %v", role, err)
	}
}

// The plain table of three columns is adopted as it is: claims work, and the log
// says what it cannot do.
func TestPlainTableIsAdopted(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			db := open(t, driver, testservices.NewPostgresDatabase(t))
			exec(t, db, plainTable, `INSERT INTO processed_messages VALUES ('stock', 'old')`)
			if err := pginbox.Migrate(t.Context(), db, pginbox.Config{}); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			box, err := pginbox.Open(t.Context(), db, pginbox.Config{Config: inbox.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(log.String(), "no fingerprint column") {
				t.Errorf("log %q", log.String())
			}
			if err := box.Register(t.Context(), inbox.Consumer{Name: "stock"}); err != nil {
				t.Fatal(err)
			}
			none := func(context.Context) error { return nil }
			claim := inbox.Claim{Consumer: "stock", Key: "k", Fingerprint: inbox.Fingerprint([]byte("a"))}
			for i, want := range []inbox.Outcome{inbox.Processed, inbox.Duplicate} {
				if out, err := box.Do(t.Context(), claim, none); out != want {
					t.Errorf("do %d: %s, %v", i, out, err)
				}
			}
			if out, err := box.Do(t.Context(), inbox.Claim{Consumer: "stock", Key: "old"}, none); out != inbox.Duplicate {
				t.Errorf("an old row: %s, %v", out, err)
			}
			out, err := box.Do(t.Context(), inbox.Claim{Consumer: "stock", Key: "ends"}, func(ctx context.Context) error {
				tx, err := inbox.SQLTx(ctx)
				if err != nil {
					return err
				}
				return tx.Commit()
			})
			if out != inbox.Failed || !errors.Is(err, inbox.ErrSplit) || !strings.Contains(err.Error(), "fingerprint column") {
				t.Errorf("split: %s, %v", out, err)
			}
		})
	}
}

// Names that need quotes, a schema of its own, and a second table beside the
// first.
func TestTableNames(t *testing.T) {
	db := open(t, "postgres", testservices.NewPostgresDatabase(t))
	exec(t, db, `CREATE SCHEMA "Odd Schema"`)
	for _, table := range []string{"", "Claims of Stock", `Odd Schema.say "hi"`, "public.user"} {
		c := pginbox.Config{Table: table}
		for range 2 {
			if err := pginbox.Migrate(t.Context(), db, c); err != nil {
				t.Fatalf("%q: %v", table, err)
			}
		}
		box, err := pginbox.Open(t.Context(), db, c)
		if err != nil {
			t.Fatalf("%q: %v", table, err)
		}
		if err := box.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
			t.Fatalf("%q: %v", table, err)
		}
		out, err := box.Do(t.Context(), inbox.Claim{Consumer: "c", Key: "k"}, func(context.Context) error { return nil })
		if out != inbox.Processed {
			t.Errorf("%q: %s, %v", table, out, err)
		}
	}
	for _, table := range []string{"a.b.c", ".a", "a.", "a\x00"} {
		if _, err := pginbox.Open(t.Context(), db, pginbox.Config{Table: table}); inbox.ClassOf(err) != inbox.ClassConfig {
			t.Errorf("%q: %v", table, err)
		}
	}
}

// The schema's text makes tables that Open takes without a word in the log.
func TestSchemaIsComplete(t *testing.T) {
	db := open(t, "postgres", testservices.NewPostgresDatabase(t))
	exec(t, db, pginbox.Schema())
	var log bytes.Buffer
	if _, err := pginbox.Open(t.Context(), db, pginbox.Config{AllowLossOnCrash: true, Config: inbox.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}); err != nil {
		t.Fatal(err)
	}
	if log.Len() > 0 {
		t.Errorf("log %q", log.String())
	}
}

// A database that is not there is an error that says so, without the password.
func TestOpenWithoutADatabase(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, driver := range drivers {
		for what, c := range map[string]struct {
			url   string
			class inbox.Class
			want  string
		}{
			"nobody listens": {"postgres://user:secret@" + addr + "/db?sslmode=disable", inbox.ClassDown, "start it"},
			"broken URL":     {"postgres://user:secret%zz@" + addr + "/db", inbox.ClassConfig, ""},
		} {
			db, err := sql.Open(driver, c.url)
			if err == nil {
				_, err = pginbox.Open(t.Context(), db, pginbox.Config{})
				if inbox.ClassOf(err) != c.class || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s, %s: class %s, %v", driver, what, inbox.ClassOf(err), err)
				}
				if strings.Contains(err.Error(), "secret") {
					t.Errorf("%s, %s: the error shows the password: %v", driver, what, err)
				}
				if err := pginbox.Migrate(t.Context(), db, pginbox.Config{}); inbox.ClassOf(err) != c.class {
					t.Errorf("%s, %s: migrate: class %s, %v", driver, what, inbox.ClassOf(err), err)
				}
				_ = db.Close()
			}
		}
	}
}

// A user or database that the server does not know is the set-up's fault.
func TestOpenWithWrongCredentials(t *testing.T) {
	dsn := testservices.Postgres(t)
	for _, driver := range drivers {
		db := open(t, driver, strings.Replace(dsn, "/sekali?", "/no_such_database?", 1))
		_, err := pginbox.Open(t.Context(), db, pginbox.Config{})
		if inbox.ClassOf(err) != inbox.ClassConfig {
			t.Errorf("%s: class %s, %v", driver, inbox.ClassOf(err), err)
		}
	}
}
