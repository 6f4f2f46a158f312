package mysqlinbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// Config of an inbox in MySQL or MariaDB. The zero value works.
type Config struct {
	// LockWait of it counts in whole seconds here, rounded up.
	inbox.Config

	// Table that holds the claims, with or without a database before a dot. The
	// registry, sekali_consumers, lies beside it. Defaults to "processed_messages"
	// in the database of the data source name.
	Table string
	// Isolation of the claim's transaction: sql.LevelReadCommitted,
	// LevelRepeatableRead or LevelSerializable. With REPEATABLE READ the gaps that a
	// handler locks hold up the claims and inserts of others. Defaults to READ
	// COMMITTED.
	Isolation sql.IsolationLevel
	// AllowLossOnCrash accepts a server that may lose the last commits in a crash,
	// although their messages were acknowledged: innodb_flush_log_at_trx_commit
	// other than 1, or a binary log with sync_binlog other than 1. Defaults to
	// false: Open refuses it.
	AllowLossOnCrash bool
	// Begin begins the claim's transaction instead of the inbox, for libraries that
	// wrap transactions of their own (sqlx) and for tenants. ctx carries the values
	// of Do's context, such as the tenant, and has the deadline of the transaction.
	// Begin may run statements, and must return a transaction of this driver that
	// ends with ctx. The isolation level is then its own, and on MySQL the wait for
	// a claim is that of the session; give it a pool opened with DSN, so that
	// autocommit is off: else, when a handler passes over a deadlock on the raw
	// transaction, what it writes afterwards stays. Defaults to nil.
	Begin func(ctx context.Context, db *sql.DB) (*sql.Tx, error)
}

const (
	opOpen          = "open mysqlinbox"
	defaultLockWait = 10 * time.Second
)

// Open returns an inbox on db, after a check of the server's settings and of the
// live table. It creates nothing, see Migrate. A table without the column
// fingerprint is taken as it is; what it cannot do is said in the log. ctx bounds
// the check only. The caller keeps db and closes it; it should allow as many idle
// connections as handlers run at once.
//
// db may be any pool of github.com/go-sql-driver/mysql. On one that was opened
// with DSN a message costs two round trips less.
func Open(ctx context.Context, db *sql.DB, c Config) (*inbox.Inbox, error) {
	store, err := openStore(ctx, db, c, false)
	if err != nil {
		return nil, err
	}
	return inbox.New(store, c.Config)
}

// openStore as if the server were no MariaDB, where plain is true.
func openStore(ctx context.Context, db *sql.DB, c Config, plain bool) (inbox.Store, error) {
	t, err := c.table()
	_, ierr := c.isolation()
	err = errors.Join(err, ierr, sqlstore.CheckGroup(c.Config, c.Begin != nil))
	if err != nil {
		return nil, inbox.ConfigError(opOpen, err)
	}
	s, columns, err := check(ctx, db, &t, c)
	if err != nil {
		return nil, sqlstore.OpenError(opOpen, errorsOnly, err)
	}
	s.mariaDB = s.mariaDB && !plain
	return sqlstore.New(db, newStore(s, columns, c).dialect(), sqlstore.Options{Table: t, Begin: c.Begin, Logger: c.Logger}), nil
}

func (c Config) table() (sqlstore.Table, error) {
	return sqlstore.ParseTable(c.Table, quote)
}

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// isolation as the server's variable spells it.
func (c Config) isolation() (string, error) {
	switch c.Isolation {
	case sql.LevelDefault, sql.LevelReadCommitted:
		return "READ-COMMITTED", nil
	case sql.LevelRepeatableRead:
		return "REPEATABLE-READ", nil
	case sql.LevelSerializable:
		return "SERIALIZABLE", nil
	default:
		return "", fmt.Errorf("Isolation is %s: use READ COMMITTED, REPEATABLE READ or SERIALIZABLE", c.Isolation)
	}
}

// lockWait of the claim in seconds, as the server counts.
func (c Config) lockWait() int {
	if c.LockWait <= 0 {
		return seconds(defaultLockWait)
	}
	return seconds(c.LockWait)
}

func seconds(d time.Duration) int { return int((max(d, 0) + time.Second - 1) / time.Second) }
