package pgxinbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/postgres"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// Config of an inbox in PostgreSQL. The zero value works.
type Config struct {
	inbox.Config

	// Table that holds the claims, with or without a schema before a dot. The
	// registry, sekali_consumers, lies beside it. Defaults to "processed_messages"
	// on the search path.
	Table string
	// Isolation of the claim's transaction: pgx.ReadCommitted, pgx.RepeatableRead
	// or pgx.Serializable. With the last two a copy that comes while the first one
	// runs gets a serialization failure and must be run again as a whole; Stack and
	// Handle do. Defaults to pgx.ReadCommitted.
	Isolation pgx.TxIsoLevel
	// AllowLossOnCrash leaves synchronous_commit as the session has it. Where it is
	// off, a crash of the server may undo the last commits, although their messages
	// were acknowledged. Defaults to false: a claim's commit is synchronous.
	AllowLossOnCrash bool
}

const opOpen = "open pgxinbox"

// Open returns an inbox on pool, after a check of the live table. It creates
// nothing, see Migrate. A table without the column fingerprint is taken as it
// is; what it cannot do is said in the log. ctx bounds the check only. Errors
// have class Config or Down and say what to do.
//
// The caller keeps pool and closes it. A run holds one connection of it from
// its claim to its commit, so MaxConns (pool_max_conns, 4 on a small machine
// unless set) bounds how many handlers run at once.
func Open(ctx context.Context, pool *pgxpool.Pool, c Config) (*inbox.Inbox, error) {
	var errs []error
	t, err := c.table()
	if err != nil {
		errs = append(errs, err)
	}
	switch c.Isolation {
	case "":
		c.Isolation = pgx.ReadCommitted
	case pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable:
	default:
		errs = append(errs, fmt.Errorf("Isolation is %q: use pgx.ReadCommitted, pgx.RepeatableRead or pgx.Serializable", c.Isolation))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, inbox.ConfigError(opOpen, err)
	}
	if err := check(ctx, pool, &t, c); err != nil {
		return nil, openError(opOpen, err)
	}
	return inbox.New(newStore(pool, t, c), c.Config)
}

// check reads the server and the live tables, and completes t.
func check(ctx context.Context, pool *pgxpool.Pool, t *sqlstore.Table, c Config) (err error) {
	db := stdlib.OpenDBFromPool(pool)
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	logger := c.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return postgres.Check(ctx, conn, t, postgres.CheckOptions{Package: "pgxinbox", Op: opOpen, AllowLossOnCrash: c.AllowLossOnCrash, Logger: logger})
}

func openError(op string, err error) error {
	return sqlstore.OpenError(op, &sqlstore.Dialect{Class: postgres.Class}, err)
}

func (c Config) table() (sqlstore.Table, error) {
	return sqlstore.ParseTable(c.Table, sqlstore.QuoteDouble)
}
