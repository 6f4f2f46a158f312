package source

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/mysqlinbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/middleware/inbox/sqliteinbox"
)

// maxConnections of a pool: the command does little at once, and the database
// is the services'.
const maxConnections = 8

// Open returns a pool that has been tried. The file of an SQLite database must
// exist, unless create is true. Errors are explained, see Sentence.
func (s Source) Open(ctx context.Context, create bool) (*sql.DB, error) {
	if !create {
		if err := s.exists(); err != nil {
			return nil, s.Explain(err)
		}
	}
	db, err := s.pool(ctx)
	if err != nil {
		return nil, s.Explain(err)
	}
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(maxConnections)
	if err := db.PingContext(ctx); err != nil {
		_ = db.Close()
		return nil, s.Explain(err)
	}
	return db, nil
}

func (s Source) pool(ctx context.Context) (*sql.DB, error) {
	// A dead address must not take as long as TCP likes.
	patience := 10 * time.Second
	if end, ok := ctx.Deadline(); ok {
		patience = max(time.Until(end), time.Second)
	}
	switch s.Kind {
	case Postgres:
		c, err := pgx.ParseConfig(s.dsn)
		if err != nil {
			return nil, err
		}
		if c.ConnectTimeout == 0 {
			c.ConnectTimeout = patience
		}
		if c.RuntimeParams["application_name"] == "" {
			c.RuntimeParams["application_name"] = "sekali"
		}
		return stdlib.OpenDB(*c), nil
	case MySQL:
		c, err := mysql.ParseDSN(s.dsn)
		if err != nil {
			return nil, err
		}
		if c.Timeout == 0 {
			c.Timeout = patience
		}
		c.Logger = &mysql.NopLogger{}
		connector, err := mysql.NewConnector(c)
		if err != nil {
			return nil, err
		}
		return sql.OpenDB(connector), nil
	default:
		dsn := s.dsn
		if dsn == "" {
			dsn = sqliteinbox.DSN(s.Address)
		}
		return sql.Open("sqlite", dsn)
	}
}

// Options of an inbox. The zero value works.
type Options struct {
	// Table of the claims. Defaults to processed_messages.
	Table string
	// Strict refuses a server that may lose commits in a crash. Services decide
	// whether they take one, and the command must work on it. Defaults to false.
	Strict bool
	// Bounds that the services' inboxes have. Default to the inbox's defaults.
	Bounds Bounds
	// Logger takes what an operator should know. Defaults to nil: silent.
	Logger *slog.Logger
}

// Bounds of a claim's transaction, see inbox.Config. The zero value works.
type Bounds struct {
	// Deadline and LockWait default to those of the inbox.
	Deadline, LockWait time.Duration
}

// Inbox opens the inbox in db.
func (s Source) Inbox(ctx context.Context, db *sql.DB, o Options) (b *inbox.Inbox, err error) {
	c := inbox.Config{Service: "sekali", Logger: o.Logger, Deadline: o.Bounds.Deadline, LockWait: o.Bounds.LockWait}
	switch s.Kind {
	case Postgres:
		b, err = pginbox.Open(ctx, db, pginbox.Config{Config: c, Table: o.Table, AllowLossOnCrash: !o.Strict})
	case MySQL:
		b, err = mysqlinbox.Open(ctx, db, mysqlinbox.Config{Config: c, Table: o.Table, AllowLossOnCrash: !o.Strict})
	default:
		b, err = sqliteinbox.Open(ctx, db, sqliteinbox.Config{Config: c, Table: o.Table, AllowLossOnPowerFailure: !o.Strict})
	}
	if err != nil {
		return nil, s.Explain(err)
	}
	return b, nil
}

// Migrate makes the inbox's tables, or what is missing of them.
func (s Source) Migrate(ctx context.Context, db *sql.DB, table string) (err error) {
	switch s.Kind {
	case Postgres:
		err = pginbox.Migrate(ctx, db, pginbox.Config{Table: table})
	case MySQL:
		err = mysqlinbox.Migrate(ctx, db, mysqlinbox.Config{Table: table})
	default:
		err = sqliteinbox.Migrate(ctx, db, sqliteinbox.Config{Table: table})
	}
	if err != nil {
		return s.Explain(err)
	}
	return nil
}

// Schema returns the statements that Migrate would run for the default name.
func (s Source) Schema() string {
	switch s.Kind {
	case Postgres:
		return pginbox.Schema()
	case MySQL:
		return mysqlinbox.Schema()
	default:
		return sqliteinbox.Schema()
	}
}

// Columns of a table that this user may read; none where there is no such table.
func (s Source) Columns(ctx context.Context, db *sql.DB, table string) (names []string, err error) {
	query := `SELECT name FROM pragma_table_info(?)`
	switch s.Kind {
	case Postgres:
		query = `SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped AND has_table_privilege(attrelid, 'SELECT')`
	case MySQL:
		query = `SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ?`
	case Unknown, SQLite:
	}
	rows, err := db.QueryContext(ctx, query, table)
	if err != nil {
		return nil, s.Explain(fmt.Errorf("look for table %s: %w", table, err))
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, s.Explain(err)
		}
		names = append(names, name)
	}
	return names, s.Explain(rows.Err())
}
