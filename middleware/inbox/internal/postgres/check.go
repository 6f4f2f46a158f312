package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// CheckOptions say for whom tables are checked.
type CheckOptions struct {
	// Package whose Migrate and Schema the sentences name.
	Package string
	// Op that errors are of.
	Op string
	// AllowLossOnCrash: nothing is said of a server that may lose commits.
	AllowLossOnCrash bool
	// Logger takes what an operator should know. Required.
	Logger *slog.Logger
}

// Check reads the server and the live tables, and completes t.
func Check(ctx context.Context, conn *sql.Conn, t *sqlstore.Table, o CheckOptions) error {
	if err := checkServer(ctx, conn, o); err != nil {
		return err
	}

	// In one transaction, for poolers that change the server between statements.
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	live, err := readRelation(ctx, tx, t.Claims)
	if err != nil {
		return err
	}
	registry, err := readRelation(ctx, tx, t.Consumers)
	if err != nil {
		return err
	}
	keeping, err := readRelation(ctx, tx, t.Keeping)
	if err != nil {
		return err
	}
	audit, err := readRelation(ctx, tx, t.Audit)
	if err != nil {
		return err
	}
	missing := func(r relation) error {
		if r.oid != 0 {
			return nil
		}
		return fmt.Errorf("table %s does not exist for this user and search_path: call %s.Migrate, or run the statements of %s.Schema with your migration tool", r.name, o.Package, o.Package)
	}
	if err := cmp.Or(missing(live), missing(registry)); err != nil {
		return inbox.ConfigError(o.Op, err)
	}
	f := sqlstore.NewFaults(t.Claims)
	live.judge(f, t)
	g := sqlstore.NewFaults(t.Consumers)
	registry.judgeRegistry(g, o.Package)
	h := sqlstore.NewFaults(t.Keeping)
	keeping.judgeKeeping(h)
	if err := errors.Join(f.Err(), g.Err(), missing(keeping), h.Err(), missing(audit)); err != nil {
		return inbox.ConfigError(o.Op, err)
	}
	if !t.Fingerprint {
		o.Logger.WarnContext(ctx, "table "+t.Claims+" has no fingerprint column: one key with two contents is taken for a duplicate, and a claim that its handler split cannot be marked; to have both: ALTER TABLE "+t.Claims+" ADD COLUMN fingerprint BYTEA")
	}
	if !live.mayDelete {
		o.Logger.WarnContext(ctx, "this user may not delete from "+t.Claims+": old claims cannot be purged by it; to allow it: GRANT DELETE ON "+t.Claims+" TO "+sqlstore.QuoteDouble(live.user))
	}
	return nil
}

// minVersion is the first one that tells whether a collation is deterministic.
const minVersion = 120000

func checkServer(ctx context.Context, conn *sql.Conn, o CheckOptions) error {
	var version int
	var standby, readOnly bool
	var server, client, fsync string
	err := conn.QueryRowContext(ctx, `SELECT current_setting('server_version_num')::int, pg_is_in_recovery(),
		current_setting('default_transaction_read_only') = 'on', current_setting('server_encoding'),
		current_setting('client_encoding'), current_setting('fsync')`).Scan(&version, &standby, &readOnly, &server, &client, &fsync)
	if err != nil {
		return err
	}
	var errs []error
	switch {
	case version < minVersion:
		errs = append(errs, errors.New("the server is older than PostgreSQL 12: upgrade it"))
	case standby:
		return &inbox.Error{Op: o.Op, Class: inbox.ClassDown, Err: errors.New("the server is a standby, which takes no writes: point the connection at the primary (target_session_attrs=read-write)")}
	case readOnly:
		errs = append(errs, errors.New("default_transaction_read_only is on for this user or database: an inbox must write; ALTER ROLE ... SET default_transaction_read_only = off"))
	}
	if client != "UTF8" {
		errs = append(errs, errors.New("client_encoding is "+client+": keys are UTF-8; leave client_encoding out of the connection string"))
	}
	if err := errors.Join(errs...); err != nil {
		return inbox.ConfigError(o.Op, err)
	}
	if server != "UTF8" {
		o.Logger.WarnContext(ctx, "the database's encoding is "+server+": a key with a character outside it is refused and its message becomes a letter; a database with ENCODING 'UTF8' takes every key")
	}
	if fsync == "off" && !o.AllowLossOnCrash {
		o.Logger.WarnContext(ctx, "fsync is off on the server: a power failure may lose commits whose messages were acknowledged; switch it on, or set AllowLossOnCrash")
	}
	return nil
}
