package dlq

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/sekali-mq/sekali/internal/migrate"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

//go:embed schema
var schema embed.FS

func (d *dialect) migrations() migrate.Set {
	files, err := fs.Sub(schema, "schema/"+d.name)
	if err != nil {
		panic(err) // the folder is embedded
	}
	return migrate.Set{Dialect: d.migrate, Files: files, History: "dlq"}
}

// Migrate makes the tables that Open needs, or what is missing of them. What it
// did is kept in the table sekali_migrations. Safe to call from several processes
// at once and at every start.
func Migrate(ctx context.Context, db *sql.DB) error {
	const op = "migrate dlq"
	d, err := find(ctx, db)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if err := d.migrations().Run(ctx, db); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// Schema returns the statements that make the tables, fit to paste into any
// migration tool. The dialect is "postgres", "mysql" (also for MariaDB) or
// "sqlite".
func Schema(dialect string) (string, error) {
	d, ok := dialects[dialect]
	if !ok {
		return "", inbox.Configf("schema of dlq", "dialect %q: there are %s", dialect, strings.Join(slices.Sorted(maps.Keys(dialects)), ", "))
	}
	return d.migrations().Text(), nil
}

// find asks the server what it is: drivers may be wrapped, servers know.
func find(ctx context.Context, db *sql.DB) (*dialect, error) {
	if db == nil {
		return nil, inbox.Configf("dlq", "db is nil: open the letters' database first")
	}
	var version string
	err := db.QueryRowContext(ctx, "SELECT version()").Scan(&version)
	switch {
	case err != nil:
		if serr := db.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version); serr == nil {
			return &sqlite, nil
		}
		return nil, fmt.Errorf("ask the database for its version: %w", err)
	case strings.HasPrefix(version, "PostgreSQL "):
		return &postgres, nil
	case version != "" && version[0] >= '0' && version[0] <= '9':
		return &mysql, nil
	}
	return nil, inbox.Configf("dlq", "the database says that it is %.40q: letters can be kept in PostgreSQL, MySQL, MariaDB and SQLite", version)
}
