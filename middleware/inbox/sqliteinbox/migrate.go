package sqliteinbox

import (
	"context"
	"database/sql"
	"embed"

	"github.com/sekali-mq/sekali/internal/migrate"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

//go:embed schema/*.sql
var schema embed.FS

func migrations(t sqlstore.Table) migrate.Set {
	return t.Migrations(migrate.SQLite, schema, sqlstore.QuoteDouble)
}

// Schema returns the statements that make the tables under their default names,
// fit to paste into any migration tool.
func Schema() string {
	t, err := Config{}.table()
	if err != nil {
		panic(err) // the default name is right
	}
	return migrations(t).Text()
}

// Migrate makes the tables that Open needs, or what is missing of them, in one
// transaction. What it did is kept in the table sekali_migrations; a table that
// exists already is left as it is. Safe to call from several processes at once
// and at every start. Uses Config.Table only.
func Migrate(ctx context.Context, db *sql.DB, c Config) error {
	const op = "migrate sqliteinbox"
	t, err := c.table()
	if err != nil {
		return inbox.ConfigError(op, err)
	}
	if err := patiently(ctx, func() error { return migrations(t).Run(ctx, db) }); err != nil {
		return sqlstore.OpenError(op, dialect(nil), err)
	}
	return nil
}
