package mysqlinbox

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

//go:embed schema/*.sql
var schema embed.FS

func migrations() sqlstore.Migrations {
	files, err := fs.Sub(schema, "schema")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sqlstore.Migrations{
		Files: files,
		Lock:  lockMigrations,
		Begin: "START TRANSACTION", // for a pool that does not autocommit
		Track: "CREATE TABLE IF NOT EXISTS %s (name VARBINARY(255) NOT NULL PRIMARY KEY, applied_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP) ENGINE = InnoDB",
		Quote: quote,
		Bind:  bind,
	}
}

// lockMigrations holds a lock of the connection, since DDL ends every
// transaction. Locks are named for the whole server, hence one of the database.
func lockMigrations(ctx context.Context, conn *sql.Conn) (unlock func(context.Context) error, err error) {
	const name = "CONCAT('sekali ', MD5(COALESCE(DATABASE(), '')))"
	var got sql.NullBool
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK("+name+", 60)").Scan(&got); err != nil {
		return nil, err
	}
	if !got.Bool {
		return nil, errors.New("another process has been migrating for a minute: try again when it is done")
	}
	return func(ctx context.Context) error {
		_, err := conn.ExecContext(ctx, "SELECT RELEASE_LOCK("+name+")")
		return err
	}, nil
}

// Schema returns the statements that make the tables under their default names,
// fit to paste into any migration tool.
func Schema() string {
	t, err := Config{}.table()
	if err != nil {
		panic(err) // the default name is right
	}
	return migrations().Schema(t)
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
	if err := migrations().Run(ctx, db, t); err != nil {
		return sqlstore.OpenError(op, errorsOnly, err)
	}
	return nil
}
