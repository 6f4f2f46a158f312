package mysqlinbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/inboxtest"
	"github.com/sekali-mq/sekali/middleware/inbox/mysqlinbox"
)

// variant is a way to use the store that must make no difference.
type variant struct {
	name string
	// dsn changes the data source name. Defaults to nil: as it is.
	dsn    func(*mysql.Config)
	config mysqlinbox.Config
	// own: a pool opened with mysqlinbox.DSN.
	own bool
	// plain: only statements that MySQL has too.
	plain bool
}

var variants = []variant{
	{name: "shared"},
	{name: "own", own: true},
	{name: "shared-plain", plain: true},
	{name: "own-plain", own: true, plain: true},
	{name: "repeatable-read", config: mysqlinbox.Config{Isolation: sql.LevelRepeatableRead}, dsn: func(c *mysql.Config) {
		c.ClientFoundRows, c.InterpolateParams, c.ParseTime = true, true, true
		c.Loc, _ = time.LoadLocation("Asia/Tokyo")
		c.Params = map[string]string{"time_zone": "'+09:00'", "innodb_snapshot_isolation": "1"}
	}},
	{name: "serializable", own: true, config: mysqlinbox.Config{Isolation: sql.LevelSerializable}, dsn: func(c *mysql.Config) {
		c.MultiStatements, c.ParseTime = true, true
		c.Collation = "latin1_swedish_ci"
		c.Params = map[string]string{"time_zone": "'-08:00'", "sql_mode": "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'"}
	}},
}

func TestInbox(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			inboxtest.Run(t, inboxtest.Config{
				Database: func(t *testing.T) inboxtest.Database {
					dsn := testservices.NewMariaDBDatabase(t)
					return v.database(t, dsn, dsn)
				},
				Variant: v.config.Isolation != sql.LevelDefault || v.own != v.plain, // the two ways to claim, each on a pool of either kind
				Refused: refused,
				Unseen:  []string{"EXECUTE IMMEDIATE 'COMMIT'", "EXECUTE IMMEDIATE 'ROLLBACK'"},
				Earlier: func(column string, seconds int) string {
					return fmt.Sprintf("%s - INTERVAL %d SECOND", column, seconds)
				},
				Endless:   "SELECT SLEEP(3600)",
				Deadlocks: 2,
			})
		})
	}
}

// refused statements end a transaction on MySQL, or commit it on the way.
var refused = []string{
	"START TRANSACTION", "XA START 'x'", "BEGIN NOT ATOMIC COMMIT; END", "# x\nCOMMIT", "/*! COMMIT */", "/*M!100000 COMMIT */", "/*!50000 ALTER */ TABLE t ENGINE = InnoDB",
	"CREATE TABLE t (a INT)", "DROP TABLE IF EXISTS t", "ALTER TABLE t ADD b INT", "TRUNCATE t", "TRUNCATE TABLE t", "RENAME TABLE t TO u", "CREATE INDEX i ON t (a)",
	"LOCK TABLES t WRITE", "UNLOCK TABLES", "FLUSH TABLES", "ANALYZE TABLE t", "GRANT SELECT ON *.* TO x", "SET PASSWORD = ''",
	"SET autocommit = 1", "set @@autocommit=1", "SET @@session.`autocommit` = ON", "SET @x = 1, SESSION autocommit = 1",
	"SAVEPOINT `sekali`", "SAVEPOINT SEKALI", "ROLLBACK WORK TO sekali",
}

// database with the tables in it, whose inboxes reach it by dsn.
func (v variant) database(t *testing.T, direct, dsn string) inboxtest.Database {
	t.Helper()
	db := openDB(t, direct)
	if err := mysqlinbox.Migrate(t.Context(), db, v.config); err != nil {
		t.Fatal(err)
	}
	d := inboxtest.SQL(db, func(t *testing.T, ic inbox.Config, maxConns int) *inbox.Inbox {
		t.Helper()
		c := v.config
		c.Config = ic
		box, db := v.open(t, dsn, c)
		db.SetMaxOpenConns(maxConns)
		return box
	})
	d.Waiting = func(ctx context.Context) (bool, error) { return isWaiting(ctx, db) }
	return d
}

// isWaiting tells whether a session of the database waits for a lock.
func isWaiting(ctx context.Context, db *sql.DB) (waiting bool, err error) {
	// The server shows a copy that it renews only when nobody looked for 0.1 s.
	if _, err := db.ExecContext(ctx, "DO SLEEP(0.11)"); err != nil {
		return false, err
	}
	err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM information_schema.INNODB_TRX t JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id
		WHERE p.DB = DATABASE() AND t.trx_state = 'LOCK WAIT')`).Scan(&waiting)
	return waiting, err
}

func (v variant) open(t *testing.T, dsn string, c mysqlinbox.Config) (*inbox.Inbox, *sql.DB) {
	t.Helper()
	db := openDB(t, v.source(t, dsn, c))
	open := mysqlinbox.Open
	if v.plain {
		open = mysqlinbox.OpenPlain
	}
	box, err := open(t.Context(), db, c)
	if err != nil {
		t.Fatal(err)
	}
	return box, db
}

// source is the data source name.
func (v variant) source(t *testing.T, dsn string, c mysqlinbox.Config) string {
	t.Helper()
	if v.dsn != nil {
		parsed, err := mysql.ParseDSN(dsn)
		if err != nil {
			t.Fatal("parse the server's name")
		}
		v.dsn(parsed)
		dsn = parsed.FormatDSN()
	}
	if v.own {
		var err error
		if dsn, err = mysqlinbox.DSN(dsn, c); err != nil {
			t.Fatal(err)
		}
	}
	return dsn
}

func openDB(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

// patience bounds what the tests themselves ask.
const patience = 30 * time.Second
