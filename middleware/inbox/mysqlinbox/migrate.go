package mysqlinbox

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

func migrations(t sqlstore.Table) migrate.Set { return t.Migrations(migrate.MySQL, schema, quote) }

// Schema returns the statements that make the tables under their default names,
// fit to paste into any migration tool.
func Schema() string {
	t, err := Config{}.table()
	if err != nil {
		panic(err) // the default name is right
	}
	return migrations(t).Text()
}

// Migrate makes the tables that Open needs, or what is missing of them. What it
// did is kept in the table sekali_migrations; a table that exists already is left
// as it is. DDL cannot be undone here: what was made before an error stays, and
// the next call goes on from there. Safe to call from several processes at once
// and at every start. Uses Config.Table only; its database must exist.
func Migrate(ctx context.Context, db *sql.DB, c Config) error {
	const op = "migrate mysqlinbox"
	t, err := c.table()
	if err != nil {
		return inbox.ConfigError(op, err)
	}
	if err := migrations(t).Run(ctx, db); err != nil {
		return sqlstore.OpenError(op, errorsOnly, err)
	}
	return nil
}
