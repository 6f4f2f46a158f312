package inboxtest

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// SQL is a Database for stores whose handlers use inbox.Tx. db is for what
// happens outside of claims; open as in Database.
func SQL(db *sql.DB, open func(t *testing.T, c inbox.Config, maxConns int) *inbox.Inbox) Database {
	return Database{
		Open: open,
		Exec: func(ctx context.Context, statement string) error {
			tx, err := inbox.Tx(ctx)
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, statement)
			return err
		},
		Raw: func(ctx context.Context, statement string) error {
			tx, err := inbox.SQLTx(ctx)
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, statement)
			return err
		},
		Prepared: func(ctx context.Context, statement string) (err error) {
			tx, err := inbox.Tx(ctx)
			if err != nil {
				return err
			}
			st, err := tx.PrepareContext(ctx, statement)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, st.Close()) }()
			_, err = st.ExecContext(ctx)
			return err
		},
		Outside: func(ctx context.Context, statement string) error {
			_, err := db.ExecContext(ctx, statement)
			return err
		},
		Count: func(ctx context.Context, query string) (n int, err error) {
			err = db.QueryRowContext(ctx, query).Scan(&n)
			return n, err
		},
		ErrLate: sql.ErrTxDone,
	}
}
