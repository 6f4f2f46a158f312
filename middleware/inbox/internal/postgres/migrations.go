package postgres

import (
	"embed"

	"github.com/sekali-mq/sekali/internal/migrate"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

//go:embed schema/*.sql
var schema embed.FS

// Migrations make the tables.
func Migrations(t sqlstore.Table) migrate.Set {
	return t.Migrations(migrate.Postgres, schema, sqlstore.QuoteDouble)
}
