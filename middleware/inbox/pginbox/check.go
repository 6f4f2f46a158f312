package pginbox

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"

	"github.com/sekali-mq/sekali/middleware/inbox/internal/postgres"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// check reads the server and the live tables, completes t, and tells the kind of
// driver.
func check(ctx context.Context, db *sql.DB, t *sqlstore.Table, c Config) (kind driverKind, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return kind, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.Raw(func(dc any) error {
		kind = kindOf(dc)
		return nil
	}); err != nil {
		return kind, err
	}
	logger := c.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return kind, postgres.Check(ctx, conn, t, postgres.CheckOptions{Package: "pginbox", Op: opOpen, AllowLossOnCrash: c.AllowLossOnCrash, Logger: logger})
}
