package sqliteinbox_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/inboxtest"
	"github.com/sekali-mq/sekali/middleware/inbox/sqliteinbox"
)

func TestInbox(t *testing.T) {
	t.Parallel()
	inboxtest.Run(t, inboxtest.Config{Database: newDatabase, OneWriter: true})
}

// newDatabase makes an empty file with the tables in it.
func newDatabase(t *testing.T) inboxtest.Database {
	t.Helper()
	dsn := sqliteinbox.DSN(filepath.Join(t.TempDir(), "inbox.db"))
	db := open(t, dsn)
	if err := sqliteinbox.Migrate(t.Context(), db, sqliteinbox.Config{}); err != nil {
		t.Fatal(err)
	}
	return inboxtest.SQL(db, func(t *testing.T, c inbox.Config, maxConns int) *inbox.Inbox {
		t.Helper()
		db := open(t, dsn)
		db.SetMaxOpenConns(maxConns)
		box, err := sqliteinbox.Open(t.Context(), db, sqliteinbox.Config{Config: c})
		if err != nil {
			t.Fatal(err)
		}
		return box
	})
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn)
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
