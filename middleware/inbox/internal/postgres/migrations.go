package postgres

import (
	"embed"
	"io/fs"

	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

//go:embed schema/*.sql
var schema embed.FS

// Migrations make the tables.
func Migrations(bind func() *sqlstore.Binder) sqlstore.Migrations {
	files, err := fs.Sub(schema, "schema")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sqlstore.Migrations{
		Files: files,
		// The number is the lock's name: "sekali", read as bytes.
		Begin: "BEGIN; SELECT pg_advisory_xact_lock(126879430437993)",
		Track: "CREATE TABLE IF NOT EXISTS %s (name TEXT NOT NULL PRIMARY KEY, applied_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP)",
		Quote: sqlstore.QuoteDouble,
		Bind:  bind,
	}
}
