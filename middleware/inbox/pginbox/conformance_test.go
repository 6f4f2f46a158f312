package pginbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"
	_ "github.com/lib/pq"              // driver "postgres"
	"go.uber.org/goleak"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/inboxtest"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
)

// drivers that pginbox works with, as database/sql knows them.
var drivers = []string{"postgres", "pgx"}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestInbox(t *testing.T) {
	for _, driver := range drivers {
		for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
			t.Run(driver+"/"+level.String(), func(t *testing.T) {
				if testing.Short() && level != sql.LevelReadCommitted {
					t.Skip("only READ COMMITTED in short mode")
				}
				t.Parallel()
				inboxtest.Run(t, inboxtest.Config{
					Database: func(t *testing.T) inboxtest.Database {
						return newDatabase(t, driver, pginbox.Config{Isolation: level})
					},
					FailedStatementDooms: true,
					Deadlocks:            1,
					SideBySide:           level == sql.LevelReadCommitted,
					Variant:              level != sql.LevelReadCommitted,
					Earlier: func(column string, seconds int) string {
						return fmt.Sprintf("%s - interval '%d seconds'", column, seconds)
					},
					Endless: "SELECT pg_sleep(3600)",
					Refused: []string{"START TRANSACTION", "ABORT", "PREPARE TRANSACTION 'x'", "RESET ALL", "DISCARD ALL", "((COMMIT))", "/* /* */ */ COMMIT", "-- x\rCOMMIT", "SELECT 1; -- x\rCOMMIT"},
				})
			})
		}
	}
}

// newDatabase makes an empty database with the tables in it.
func newDatabase(t *testing.T, driver string, c pginbox.Config) inboxtest.Database {
	t.Helper()
	url := testservices.NewPostgresDatabase(t)
	db := open(t, driver, url)
	if err := pginbox.Migrate(t.Context(), db, c); err != nil {
		t.Fatal(err)
	}
	return database(db, driver, url, c)
}

func database(db *sql.DB, driver, url string, c pginbox.Config) inboxtest.Database {
	d := inboxtest.SQL(db, func(t *testing.T, ic inbox.Config, maxConns int) *inbox.Inbox {
		t.Helper()
		db := open(t, driver, url)
		db.SetMaxOpenConns(maxConns)
		c := c
		c.Config = ic
		box, err := pginbox.Open(t.Context(), db, c)
		if err != nil {
			t.Fatal(err)
		}
		return box
	})
	d.Waiting = func(ctx context.Context) (waiting bool, err error) {
		err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waiting)
		return waiting, err
	}
	return d
}

func open(t *testing.T, driver, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, url)
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
