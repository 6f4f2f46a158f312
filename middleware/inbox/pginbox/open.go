package pginbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// Config of an inbox in PostgreSQL. The zero value works.
type Config struct {
	inbox.Config

	// Table that holds the claims, with or without a schema before a dot. The
	// registry, sekali_consumers, lies beside it. Defaults to "processed_messages"
	// on the search path.
	Table string
	// Isolation of the claim's transaction: sql.LevelReadCommitted,
	// LevelRepeatableRead or LevelSerializable. With the last two a copy that comes
	// while the first one runs gets a serialization failure and must be run again
	// as a whole; Stack and Handle do. Defaults to READ COMMITTED.
	Isolation sql.IsolationLevel
	// AllowLossOnCrash leaves synchronous_commit as the session has it. Where it is
	// off, a crash of the server may undo the last commits, although their messages
	// were acknowledged. Defaults to false: a claim's commit is synchronous.
	AllowLossOnCrash bool
	// Begin begins the claim's transaction instead of the inbox, for libraries that
	// wrap transactions of their own (sqlx), for row-level security and for tenants.
	// ctx carries the values of Do's context, such as the tenant, and has the
	// deadline of the transaction. Begin may run statements, and must return a
	// transaction of this driver that ends with ctx. The isolation level is then its
	// own. Defaults to nil.
	Begin func(ctx context.Context, db *sql.DB) (*sql.Tx, error)
}

const opOpen = "open pginbox"

// Open returns an inbox on db, after a check of the live table. It creates
// nothing, see Migrate. A table without the column fingerprint is taken as it
// is; what it cannot do is said in the log. ctx bounds the check only. The
// caller keeps db and closes it; it should allow as many idle connections as
// handlers run at once.
func Open(ctx context.Context, db *sql.DB, c Config) (*inbox.Inbox, error) {
	var errs []error
	t, err := c.table()
	if err != nil {
		errs = append(errs, err)
	}
	switch c.Isolation {
	case sql.LevelDefault:
		c.Isolation = sql.LevelReadCommitted
	case sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable:
	default:
		errs = append(errs, fmt.Errorf("Isolation is %s: use READ COMMITTED, REPEATABLE READ or SERIALIZABLE", c.Isolation))
	}
	errs = append(errs, sqlstore.CheckGroup(c.Config, c.Begin != nil))
	if err := errors.Join(errs...); err != nil {
		return nil, inbox.ConfigError(opOpen, err)
	}
	kind, err := check(ctx, db, &t, c)
	d := dialect(kind, !c.AllowLossOnCrash)
	if err != nil {
		return nil, sqlstore.OpenError(opOpen, d, err)
	}
	store := sqlstore.New(db, d, sqlstore.Options{Table: t, Isolation: c.Isolation, Begin: c.Begin, Logger: c.Logger})
	return inbox.New(store, c.Config)
}

func (c Config) table() (sqlstore.Table, error) {
	return sqlstore.ParseTable(c.Table, sqlstore.QuoteDouble)
}
