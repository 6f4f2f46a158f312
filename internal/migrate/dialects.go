package migrate

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"strings"
)

func quoteDouble(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func quoteBack(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Postgres runs all files in one transaction.
var Postgres = Dialect{
	// The number is the lock's name: "sekali", read as bytes.
	begin: "BEGIN; SELECT pg_advisory_xact_lock(126879430437993)",
	track: "CREATE TABLE IF NOT EXISTS %s (name TEXT NOT NULL PRIMARY KEY, applied_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP)",
	quote: quoteDouble,
	// In digits: it means the same whatever standard_conforming_strings says.
	text: func(s string) string {
		return "convert_from(decode('" + hex.EncodeToString([]byte(s)) + "', 'hex'), 'UTF8')"
	},
}

// MySQL is also MariaDB. DDL cannot be undone there: what was made before an
// error stays, and the next run goes on from there.
var MySQL = Dialect{
	lock:  lockMySQL,
	begin: "START TRANSACTION", // for a pool that does not autocommit
	track: "CREATE TABLE IF NOT EXISTS %s (name VARBINARY(255) NOT NULL PRIMARY KEY, applied_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP) ENGINE = InnoDB",
	quote: quoteBack,
	text:  func(s string) string { return "_utf8mb4 x'" + hex.EncodeToString([]byte(s)) + "'" },
}

// SQLite runs all files in one transaction.
var SQLite = Dialect{
	begin: "BEGIN IMMEDIATE",
	track: "CREATE TABLE IF NOT EXISTS %s (name TEXT NOT NULL PRIMARY KEY, applied_at INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('subsec') * 1000) AS INTEGER))) WITHOUT ROWID",
	quote: quoteDouble,
	text:  func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" },
}

// lockMySQL holds a lock of the connection, since DDL ends every transaction.
// Locks are named for the whole server, hence one of the database.
func lockMySQL(ctx context.Context, conn *sql.Conn) (unlock func(context.Context) error, err error) {
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
