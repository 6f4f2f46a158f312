package mysqlinbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/mysqlinbox"
)

const (
	plainTable = `CREATE TABLE processed_messages (consumer_name VARBINARY(100) NOT NULL, message_key VARBINARY(200) NOT NULL,
		processed_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), PRIMARY KEY (consumer_name, message_key)) ENGINE = InnoDB`
	otherTable = "CREATE TABLE other (id INT NOT NULL PRIMARY KEY) ENGINE = InnoDB"
)

// Every reason why claims in a live table would not hold is refused at start,
// with a sentence that says what to do, and what it says works.
func TestOpenRefuses(t *testing.T) {
	const (
		full = "CREATE TABLE processed_messages (consumer_name VARBINARY(100) NOT NULL, message_key VARBINARY(200) NOT NULL, processed_at DATETIME(6) NOT NULL, fingerprint VARBINARY(255)"
		key  = ", PRIMARY KEY (consumer_name, message_key))"
		text = "message_key VARCHAR(200) CHARACTER SET utf8mb4 COLLATE "
	)
	with := func(old, replacement string) string { return strings.Replace(full, old, replacement, 1) + key }
	for name, c := range map[string]struct {
		table string
		want  string // part of the sentence; what follows "ALTER" or "DROP" in it is run
		fixed bool   // the sentence has the whole remedy
	}{
		"no table":            {"SELECT 1", "mysqlinbox.Migrate", false},
		"no key":              {full + ")", "no unique key on exactly", true},
		"key of one column":   {full + ", PRIMARY KEY (message_key))", "another unique key", false},
		"key with the time":   {full + ", PRIMARY KEY (consumer_name, message_key, processed_at))", "another unique key", false},
		"key of a prefix":     {full + ", UNIQUE KEY k (consumer_name, message_key(20)))", "beginning of a column", true},
		"one more key":        {full + ", PRIMARY KEY (consumer_name, message_key), UNIQUE KEY f (fingerprint))", "another unique key, f on (fingerprint)", false},
		"MyISAM":              {full + key + " ENGINE = MyISAM", "has the engine MyISAM", true},
		"folds case":          {with("message_key VARBINARY(200)", text+"utf8mb4_general_ci"), "collation utf8mb4_general_ci", true},
		"ignores blanks":      {with("message_key VARBINARY(200)", text+"utf8mb4_bin"), "ignores trailing blanks", true},
		"latin1":              {with("message_key VARBINARY(200)", "message_key VARCHAR(200) CHARACTER SET latin1 COLLATE latin1_nopad_bin"), "holds no emoji", true},
		"padded":              {with("message_key VARBINARY(200)", "message_key BINARY(200)"), "has type binary", true},
		"short key":           {with("VARBINARY(200)", "VARBINARY(64)"), "is too short for a key of 200 bytes, it holds 64", true},
		"short name":          {with("VARBINARY(100)", "VARBINARY(64)"), "is too short for a key of 100 bytes", true},
		"nullable":            {"CREATE TABLE processed_messages (consumer_name VARBINARY(100), message_key VARBINARY(200) NOT NULL, processed_at DATETIME(6) NOT NULL, UNIQUE KEY (consumer_name, message_key))", "may be NULL", true},
		"no time":             {"CREATE TABLE processed_messages (consumer_name VARBINARY(100) NOT NULL, message_key VARBINARY(200) NOT NULL" + key, "Config.Already", false},
		"time as number":      {with("processed_at DATETIME(6)", "processed_at BIGINT"), "has type bigint", false},
		"time moves":          {with("processed_at DATETIME(6) NOT NULL", "processed_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)"), "changes with every update", true},
		"time without value":  {with("processed_at DATETIME(6) NOT NULL", "processed_at TIMESTAMP(6) NOT NULL DEFAULT '2000-01-01'"), "processed_at has no default", true},
		"one more column":     {with("fingerprint", "tenant INT NOT NULL, fingerprint"), "tenant is NOT NULL without a default", false},
		"generated":           {with("fingerprint VARBINARY(255)", "fingerprint VARBINARY(255) AS (LEFT(message_key, 3)) STORED"), "is generated", false},
		"fingerprint as text": {with("fingerprint VARBINARY(255)", "fingerprint VARCHAR(255)"), "fingerprint has type varchar", true},
		"short fingerprint":   {with("fingerprint VARBINARY(255)", "fingerprint VARBINARY(8)"), "fingerprint has type varbinary(8)", true},
		"view":                {"CREATE VIEW processed_messages AS SELECT 1 AS consumer_name", "is a view", false},
		"history":             {full + key + " WITH SYSTEM VERSIONING", "is a system versioned", false},
		"by time":             {full + ", PRIMARY KEY (consumer_name, message_key, processed_at)) PARTITION BY RANGE COLUMNS (processed_at) (PARTITION p VALUES LESS THAN MAXVALUE)", "is partitioned", false},
		"foreign key":         {full + ", id INT, CONSTRAINT toother FOREIGN KEY (id) REFERENCES other (id)" + key, "foreign key toother", true},
		"trigger":             {full + key, "has the trigger eat", true},
		"temporary":           {strings.Replace(full, "CREATE", "CREATE TEMPORARY", 1) + key, "is temporary", false},
	} {
		t.Run(name, func(t *testing.T) {
			db := openDB(t, testservices.NewMariaDBDatabase(t))
			db.SetMaxOpenConns(1) // for the temporary one
			if err := mysqlinbox.Migrate(t.Context(), db, mysqlinbox.Config{}); err != nil {
				t.Fatal(err)
			}
			exec(t, db, "DROP TABLE processed_messages", otherTable, c.table)
			if name == "trigger" {
				exec(t, db, "CREATE TRIGGER eat BEFORE INSERT ON processed_messages FOR EACH ROW SET NEW.message_key = 'x'")
			}
			_, err := mysqlinbox.Open(t.Context(), db, mysqlinbox.Config{})
			if inbox.ClassOf(err) != inbox.ClassConfig || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
			if n := strings.Count(err.Error(), "open mysqlinbox:"); n != 1 {
				t.Errorf("%v names its operation %d times", err, n)
			}
			if !c.fixed {
				return
			}
			remedy := err.Error()[strings.LastIndex(err.Error(), ": ")+2:]
			exec(t, db, remedy)
			if _, err := mysqlinbox.Open(t.Context(), db, mysqlinbox.Config{}); err != nil {
				t.Errorf("after %s: %v", remedy, err)
			}
		})
	}
}

// The plain table of three columns is adopted as it is, with VARBINARY or a
// collation that compares bytes, TIMESTAMP or DATETIME: claims work, and the log
// says what it cannot do.
func TestPlainTableIsAdopted(t *testing.T) {
	for name, c := range map[string]struct{ table, log string }{
		"timestamp": {plainTable, "no fingerprint column"},
		"varchar": {`CREATE TABLE processed_messages (consumer_name VARCHAR(100) NOT NULL, message_key VARCHAR(255) NOT NULL, processed_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
			PRIMARY KEY (message_key, consumer_name)) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`, "no fingerprint column"},
		"datetime":    {strings.Replace(plainTable, "TIMESTAMP(6)", "DATETIME(6)", 1), "ages of older rows"},
		"partitioned": {plainTable + " PARTITION BY KEY (message_key) PARTITIONS 2", "no fingerprint column"},
	} {
		for _, v := range variants {
			t.Run(name+"/"+v.name, func(t *testing.T) {
				dsn := testservices.NewMariaDBDatabase(t)
				db := openDB(t, dsn)
				exec(t, db, c.table, "INSERT INTO processed_messages (consumer_name, message_key) VALUES ('stock', 'old')")
				if err := mysqlinbox.Migrate(t.Context(), db, mysqlinbox.Config{}); err != nil {
					t.Fatal(err)
				}
				var log bytes.Buffer
				config := v.config
				config.Logger = slog.New(slog.NewTextHandler(&log, nil))
				box, _ := v.open(t, dsn, config)
				if !strings.Contains(log.String(), c.log) {
					t.Errorf("log %q", log.String())
				}
				register(t, box)
				claim := inbox.Claim{Consumer: "stock", Key: "é😀", Fingerprint: inbox.Fingerprint([]byte("a"))}
				for i, want := range []inbox.Outcome{inbox.Processed, inbox.Duplicate} {
					if out, err := box.Do(t.Context(), claim, func(context.Context) error { return nil }); out != want {
						t.Errorf("do %d: %s, %v", i, out, err)
					}
				}
				if out, err := box.Do(t.Context(), inbox.Claim{Consumer: "stock", Key: "old"}, never(t)); out != inbox.Duplicate {
					t.Errorf("an old row: %s, %v", out, err)
				}
				recs, err := box.Lookup(t.Context(), claim)
				if err != nil || !recs[0].Found || recs[0].Age > patience {
					t.Errorf("look up: %+v, %v", recs, err)
				}
				out, err := box.Do(t.Context(), inbox.Claim{Consumer: "stock", Key: "ends"}, func(ctx context.Context) error { return raw(ctx, "COMMIT") })
				if out != inbox.Failed || !errors.Is(err, inbox.ErrSplit) || !strings.Contains(err.Error(), "fingerprint column") {
					t.Errorf("split: %s, %v", out, err)
				}
			})
		}
	}
}

// A missing privilege is named with the statement that gives it; a user needs no
// more than these.
func TestPrivileges(t *testing.T) {
	direct := testservices.NewMariaDBDatabase(t)
	admin := openDB(t, direct)
	if err := mysqlinbox.Migrate(t.Context(), admin, mysqlinbox.Config{}); err != nil {
		t.Fatal(err)
	}
	dsn, user := plainUser(t, admin, direct)
	exec(t, admin, "GRANT SELECT ON processed_messages TO "+user, "GRANT SELECT ON sekali_consumers TO "+user)
	_, err := mysqlinbox.Open(t.Context(), openDB(t, dsn), mysqlinbox.Config{})
	if inbox.ClassOf(err) != inbox.ClassConfig || !strings.Contains(err.Error(), "may not INSERT: GRANT SELECT, INSERT, UPDATE, DELETE ON") {
		t.Fatalf("error %v", err)
	}
	exec(t, admin, "GRANT SELECT, INSERT, UPDATE ON processed_messages TO "+user, "GRANT SELECT, INSERT, UPDATE ON sekali_consumers TO "+user)
	_, err = mysqlinbox.Open(t.Context(), openDB(t, dsn), mysqlinbox.Config{})
	if inbox.ClassOf(err) != inbox.ClassConfig || !strings.Contains(err.Error(), "GRANT SELECT ON") || !strings.Contains(err.Error(), "sekali_keeping") {
		t.Fatalf("without a look at holds: %v", err)
	}
	exec(t, admin, "GRANT SELECT ON sekali_keeping TO "+user)
	var log bytes.Buffer
	box, err := mysqlinbox.Open(t.Context(), openDB(t, dsn), mysqlinbox.Config{Config: inbox.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	if err != nil || !strings.Contains(log.String(), "may not delete") {
		t.Fatalf("error %v, log %q", err, log.String())
	}
	register(t, box)
	if out, err := box.Do(t.Context(), claim("k"), func(context.Context) error { return nil }); out != inbox.Processed {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := box.Do(t.Context(), claim("ends"), func(ctx context.Context) error { return raw(ctx, "COMMIT") }); !errors.Is(err, inbox.ErrSplit) {
		t.Errorf("%s, %v", out, err)
	}
}

// plainUser makes a user without privileges and returns how it connects.
func plainUser(t *testing.T, admin *sql.DB, direct string) (dsn, user string) {
	t.Helper()
	c, err := mysql.ParseDSN(direct)
	if err != nil {
		t.Fatal("parse the server's name")
	}
	c.User, c.Passwd = testservices.Name(t), "secret"
	user = "'" + c.User + "'@'%'"
	exec(t, admin, "CREATE USER "+user+" IDENTIFIED BY 'secret'", "GRANT USAGE, CREATE TEMPORARY TABLES ON "+c.DBName+".* TO "+user)
	t.Cleanup(func() { exec(t, openDB(t, direct), "DROP USER "+user) })
	return c.FormatDSN(), user
}

// Names that need quotes, a database of its own, and a second table beside the
// first.
func TestTableNames(t *testing.T) {
	direct := testservices.NewMariaDBDatabase(t)
	db := openDB(t, direct)
	odd := testservices.Name(t) + " odd"
	exec(t, db, "CREATE DATABASE `"+odd+"`")
	t.Cleanup(func() { exec(t, openDB(t, direct), "DROP DATABASE `"+odd+"`") })
	for _, table := range []string{"", "Claims of Stock", odd + ".say `hi`", "user", "stöck"} {
		c := mysqlinbox.Config{Table: table}
		for range 2 {
			if err := mysqlinbox.Migrate(t.Context(), db, c); err != nil {
				t.Fatalf("%q: %v", table, err)
			}
		}
		box, err := mysqlinbox.Open(t.Context(), db, c)
		if err != nil {
			t.Fatalf("%q: %v", table, err)
		}
		register(t, box)
		if out, err := box.Do(t.Context(), claim("k"), func(context.Context) error { return nil }); out != inbox.Processed {
			t.Errorf("%q: %s, %v", table, out, err)
		}
	}
	for _, table := range []string{"a.b.c", ".a", "a.", "a\x00"} {
		if _, err := mysqlinbox.Open(t.Context(), db, mysqlinbox.Config{Table: table}); inbox.ClassOf(err) != inbox.ClassConfig {
			t.Errorf("%q: %v", table, err)
		}
	}
}

// The schema's text makes tables that Open takes without a word in the log.
func TestSchemaIsComplete(t *testing.T) {
	c, err := mysql.ParseDSN(testservices.NewMariaDBDatabase(t))
	if err != nil {
		t.Fatal("parse the server's name")
	}
	c.MultiStatements = true
	db := openDB(t, c.FormatDSN())
	exec(t, db, mysqlinbox.Schema())
	var log bytes.Buffer
	if _, err := mysqlinbox.Open(t.Context(), db, mysqlinbox.Config{Config: inbox.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}); err != nil {
		t.Fatal(err)
	}
	if log.Len() > 0 {
		t.Errorf("log %q", log.String())
	}
}

// Processes that migrate at once, on pools that autocommit and that do not, make
// the tables once.
func TestMigrateAtOnce(t *testing.T) {
	direct := testservices.NewMariaDBDatabase(t)
	own, err := mysqlinbox.DSN(direct, mysqlinbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	const processes = 8
	for i := range processes {
		db := openDB(t, []string{direct, own}[i%2])
		go func() { errs <- mysqlinbox.Migrate(t.Context(), db, mysqlinbox.Config{}) }()
	}
	for range processes {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := count(t, openDB(t, direct), "SELECT count(*) FROM sekali_migrations"); n != 4 {
		t.Errorf("%d migrations", n)
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
	server, err := mysql.ParseDSN(testservices.MariaDB(t))
	if err != nil {
		t.Fatal("parse the server's name")
	}
	change := func(fn func(*mysql.Config)) string {
		c := server.Clone()
		fn(c)
		return c.FormatDSN()
	}
	for what, c := range map[string]struct {
		dsn   string
		class inbox.Class
		want  string
	}{
		"nobody listens":   {"user:secret@tcp(" + addr + ")/db", inbox.ClassDown, "start it"},
		"no such database": {change(func(c *mysql.Config) { c.DBName = "no_such_database" }), inbox.ClassConfig, "correct user"},
		"no database":      {change(func(c *mysql.Config) { c.DBName = "" }), inbox.ClassConfig, "has no database"},
		"wrong password":   {change(func(c *mysql.Config) { c.Passwd = "secret" }), inbox.ClassConfig, "correct user"},
	} {
		_, err := mysqlinbox.Open(t.Context(), openDB(t, c.dsn), mysqlinbox.Config{})
		if inbox.ClassOf(err) != c.class || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: class %s, %v", what, inbox.ClassOf(err), err)
		}
	}
	if _, err := mysqlinbox.DSN("mysql://user:secret@host/db", mysqlinbox.Config{}); inbox.ClassOf(err) != inbox.ClassConfig || strings.Contains(err.Error(), "secret") {
		t.Errorf("DSN: %v", err)
	}
}
