package pgxinbox

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/postgres"
)

// Schema returns the statements that make the tables under their default names,
// fit to paste into any migration tool. They are those of pginbox.
func Schema() string {
	t, err := Config{}.table()
	if err != nil {
		panic(err) // the default name is right
	}
	return postgres.Migrations(t).Text()
}

// Migrate makes the tables that Open needs, or what is missing of them, in one
// transaction. What it did is kept in the table sekali_migrations; a table that
// exists already, one of pginbox too, is left as it is. Safe to call from
// several processes at once and at every start. Uses Config.Table only; its
// schema must exist.
func Migrate(ctx context.Context, pool *pgxpool.Pool, c Config) (err error) {
	const op = "migrate pgxinbox"
	t, err := c.table()
	if err != nil {
		return inbox.ConfigError(op, err)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := postgres.Migrations(t).Run(ctx, db); err != nil {
		return openError(op, err)
	}
	return nil
}
