package pginbox

import (
	"context"
	"database/sql"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/postgres"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// Schema returns the statements that make the tables under their default names,
// fit to paste into any migration tool.
func Schema() string {
	t, err := Config{}.table()
	if err != nil {
		panic(err) // the default name is right
	}
	return postgres.Migrations(t).Text()
}

// Migrate makes the tables that Open needs, or what is missing of them, in one
// transaction. What it did is kept in the table sekali_migrations; a table that
// exists already is left as it is. Safe to call from several processes at once
// and at every start. Uses Config.Table only; its schema must exist.
func Migrate(ctx context.Context, db *sql.DB, c Config) error {
	const op = "migrate pginbox"
	t, err := c.table()
	if err != nil {
		return inbox.ConfigError(op, err)
	}
	if err := postgres.Migrations(t).Run(ctx, db); err != nil {
		return sqlstore.OpenError(op, dialect(binds, true), err)
	}
	return nil
}
