package pgxinbox_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/inboxtest"
	"github.com/sekali-mq/sekali/middleware/inbox/pgxinbox"
)

// modes are all the ways in which pgx runs statements.
var modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// refused are what no handler may send, besides the suite's own.
var refused = []string{"START TRANSACTION", "ABORT", "PREPARE TRANSACTION 'x'", "RESET ALL", "DISCARD ALL", "((COMMIT))", "/* /* */ */ COMMIT", "-- x\rCOMMIT", "SELECT 1; -- x\rCOMMIT"}

func TestInbox(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) { conforms(t, mode, pgxinbox.Config{}) })
	}
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) { conforms(t, modes[0], pgxinbox.Config{Isolation: level}) })
	}
}

func conforms(t *testing.T, mode pgx.QueryExecMode, c pgxinbox.Config) {
	t.Helper()
	t.Parallel()
	deadlocks := 1
	if c.Isolation != "" {
		deadlocks = 0 // a snapshot from before the wait for a turn is too old for what others wrote
	}
	inboxtest.Run(t, inboxtest.Config{
		Database: func(t *testing.T) inboxtest.Database {
			url := testservices.NewPostgresDatabase(t)
			pool := connect(t, url, mode, 0)
			migrate(t, pool, c)
			return database(pool, url, mode, c)
		},
		FailedStatementDooms: true,
		Deadlocks:            deadlocks,
		SideBySide:           c.Isolation == "",
		Variant:              mode != pgx.QueryExecModeCacheStatement && mode != pgx.QueryExecModeSimpleProtocol || c.Isolation == pgx.Serializable,
		Earlier: func(column string, seconds int) string {
			return fmt.Sprintf("%s - interval '%d seconds'", column, seconds)
		},
		Endless: "SELECT pg_sleep(3600)",
		NoSQLTx: true,
		Refused: refused,
	})
}

// database is reached by the suite itself through pool, by inboxes through url.
func database(pool *pgxpool.Pool, url string, mode pgx.QueryExecMode, c pgxinbox.Config) inboxtest.Database {
	return inboxtest.Database{
		Open: func(t *testing.T, ic inbox.Config, maxConns int) *inbox.Inbox {
			t.Helper()
			c := c
			c.Config = ic
			return openOn(t, connect(t, url, mode, maxConns), c)
		},
		Exec: func(ctx context.Context, statement string) error {
			tx, err := pgxinbox.Tx(ctx)
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, statement)
			return err
		},
		Raw: func(ctx context.Context, statement string) error {
			tx, err := pgxinbox.Tx(ctx)
			if err != nil {
				return err
			}
			_, err = tx.Conn().Exec(ctx, statement)
			return err
		},
		Outside: func(ctx context.Context, statement string) error {
			_, err := pool.Exec(ctx, statement)
			return err
		},
		Count: func(ctx context.Context, query string) (n int, err error) {
			err = pool.QueryRow(ctx, query).Scan(&n)
			return n, err
		},
		Waiting: func(ctx context.Context) (waiting bool, err error) {
			err = pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waiting)
			return waiting, err
		},
		ErrLate: pgx.ErrTxClosed,
	}
}

// connect opens a pool; maxConns 0 leaves its size to pgx.
func connect(t testing.TB, url string, mode pgx.QueryExecMode, maxConns int) *pgxpool.Pool {
	t.Helper()
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal("parse the server's URL")
	}
	c.ConnConfig.DefaultQueryExecMode = mode
	if maxConns > 0 {
		c.MaxConns = int32(maxConns)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func migrate(t testing.TB, pool *pgxpool.Pool, c pgxinbox.Config) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := pgxinbox.Migrate(ctx, pool, c); err != nil {
		t.Fatal(err)
	}
}

func openOn(t testing.TB, pool *pgxpool.Pool, c pgxinbox.Config) *inbox.Inbox {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	box, err := pgxinbox.Open(ctx, pool, c)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// patience bounds what the tests themselves ask.
const patience = 30 * time.Second
