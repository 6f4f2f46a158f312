package pginbox_test

import (
	"context"
	"database/sql"
	"errors"
)

type tenantKey struct{}

// beginTenant is a Begin func as row-level security needs it: the tenant comes
// with the context of Do.
func beginTenant(ctx context.Context, db *sql.DB) (*sql.Tx, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, `SELECT set_config('app.tenant', $1, true)`, ctx.Value(tenantKey{})); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return tx, nil
}
