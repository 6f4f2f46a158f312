package pginbox

import (
	"context"
	"database/sql"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/postgres"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// dialect for a driver; durable makes the claim's commit synchronous.
func dialect(d driverKind, durable bool) *sqlstore.Dialect {
	bind := d.bind
	return &sqlstore.Dialect{
		Grammar: postgres.Grammar(),
		Bind:    bind,
		Insert: func(b *sqlstore.Binder, t sqlstore.Table, cs []inbox.Claim, wait time.Duration) string {
			return postgres.Insert(b, t, cs, wait, durable)
		},
		Lookup:   postgres.Lookup,
		Split:    postgres.Split,
		Register: postgres.Register,
		Keeping:  postgres.Keeping(),

		Lock:    postgres.Lock,
		Several: d == literals,
		Limit:   postgres.Limit,

		NoSavepoint: postgres.NoSavepoint,
		Prove:       prove,
		Status:      txStatus,

		Class:       postgres.Class,
		Busy:        func(err error) bool { return postgres.SQLState(err) == postgres.LockNotAvailable },
		Dooms:       func(error) bool { return true },
		Aborted:     func(err error) bool { return postgres.SQLState(err) != "" },
		Uncommitted: postgres.Uncommitted,
	}
}

// prove asks for the mark. Without arguments and with the answer in the command
// tag it is one round trip on every driver.
func prove(ctx context.Context, tx *sql.Tx) error {
	res, err := tx.ExecContext(ctx, "SELECT 1 WHERE "+postgres.Marked)
	if postgres.SQLState(err) == postgres.InFailedTransaction {
		return &inbox.SwallowedError{Err: err}
	}
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	if n != 1 {
		return inbox.ErrEnded
	}
	return nil
}
