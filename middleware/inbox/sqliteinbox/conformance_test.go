package sqliteinbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/inboxtest"
	"github.com/sekali-mq/sekali/middleware/inbox/sqliteinbox"
)

func TestInbox(t *testing.T) {
	t.Parallel()
	inboxtest.Run(t, inboxtest.Config{
		Database:  newDatabase,
		OneWriter: true,
		Earlier:   func(column string, seconds int) string { return fmt.Sprintf("%s - %d", column, 1000*seconds) },
		Refused:   []string{"INSERT OR ROLLBACK INTO taken VALUES (1)", "update or rollback taken SET n = 1"},
		Undoes: []string{
			"WITH x(n) AS (SELECT 1) INSERT OR ROLLBACK INTO taken SELECT n FROM x",
			"INSERT INTO unique_or_rollback VALUES (1)",
			"INSERT INTO raises VALUES (1)",
		},
		Endless: endless,
	})
}

const endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) AS n FROM c"

// newDatabase makes an empty file with the tables in it.
func newDatabase(t *testing.T) inboxtest.Database {
	t.Helper()
	dsn := sqliteinbox.DSN(filepath.Join(t.TempDir(), "inbox.db"))
	db := open(t, dsn)
	if err := sqliteinbox.Migrate(t.Context(), db, sqliteinbox.Config{}); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "CREATE TABLE taken (n INTEGER PRIMARY KEY)", "INSERT INTO taken VALUES (1)",
		"CREATE TABLE unique_or_rollback (n INTEGER UNIQUE ON CONFLICT ROLLBACK)", "INSERT INTO unique_or_rollback VALUES (1)",
		"CREATE TABLE raises (n INTEGER)", "CREATE TRIGGER raise BEFORE INSERT ON raises BEGIN SELECT RAISE(ROLLBACK, 'no'); END")
	return inboxtest.SQL(db, func(t *testing.T, c inbox.Config, maxConns int) *inbox.Inbox {
		t.Helper()
		return inboxOn(t, open(t, dsn), c, maxConns)
	})
}

func inboxOn(t *testing.T, db *sql.DB, c inbox.Config, maxConns int) *inbox.Inbox {
	t.Helper()
	db.SetMaxOpenConns(maxConns)
	box, err := sqliteinbox.Open(t.Context(), db, sqliteinbox.Config{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, db)
}

func closing(t *testing.T, db *sql.DB) *sql.DB {
	t.Helper()
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

// wrapped is the driver behind one that instruments it. shows: it shows the
// connection below.
type wrapped struct {
	dsn   string
	shows bool
}

func (w wrapped) Connect(context.Context) (driver.Conn, error) {
	db, err := sql.Open("sqlite", w.dsn)
	if err != nil {
		return nil, err
	}
	c, err := db.Driver().Open(w.dsn) // the one that functions are registered with
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	opaque := opaqueConn{c.(fullConn)}
	if w.shows {
		return shownConn{opaque}, nil
	}
	return opaque, nil
}

func (wrapped) Driver() driver.Driver { return nil }

type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnPrepareContext
}

type opaqueConn struct{ fullConn }

type shownConn struct{ opaqueConn }

func (c shownConn) Raw() driver.Conn { return c.fullConn }
