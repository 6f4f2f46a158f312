package mysqlinbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// check reads the server and the live tables, and completes t.
func check(ctx context.Context, db *sql.DB, t *sqlstore.Table, c Config) (s settings, cols columns, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return s, cols, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if s, err = readSettings(ctx, conn); err != nil {
		return s, cols, err
	}
	if err := s.judge(c); err != nil {
		return s, cols, err
	}
	// With its database, so that a handler's USE on a pooled connection cannot lead
	// the next claim to another table.
	if t.Schema == "" {
		if s.database == "" {
			return s, cols, inbox.Configf(opOpen, "the data source name has no database: add it after the slash, or set Table to \"database.table\"")
		}
		if *t, err = sqlstore.ParseTable(s.database+"."+t.Name, quote); err != nil {
			return s, cols, inbox.ConfigError(opOpen, err)
		}
	}
	live, err := readRelation(ctx, conn, s, t.Schema, t.Name)
	if err != nil {
		return s, cols, err
	}
	registry, err := readRelation(ctx, conn, s, t.Schema, sqlstore.ConsumerTable)
	if err != nil {
		return s, cols, err
	}
	for _, r := range []relation{live, registry} {
		if r.kind == "" {
			return s, cols, inbox.ConfigError(opOpen, missing(r.name))
		}
	}
	// One that the user may not see is judged by mayUse.
	var beside []error
	for _, name := range []string{t.Keeping, t.Audit} {
		if _, err := conn.ExecContext(ctx, "SELECT 1 FROM "+name+" WHERE 1 = 0"); number(err) == noSuchTable {
			beside = append(beside, missing(name))
		}
	}
	f := sqlstore.NewFaults(live.name)
	cols = live.judge(f, t)
	g := sqlstore.NewFaults(registry.name)
	registry.judgeRegistry(g)
	if err := errors.Join(append(beside, f.Err(), g.Err())...); err != nil {
		return s, cols, inbox.ConfigError(opOpen, err)
	}
	if err := mayUse(ctx, conn, *t, c); err != nil {
		return s, cols, err
	}
	say(ctx, c, *t, cols)
	return s, cols, nil
}

func missing(table string) error {
	return fmt.Errorf("table %s does not exist for this user: call mysqlinbox.Migrate, or run the statements of mysqlinbox.Schema with your migration tool", table)
}

// say what an adopted table cannot do.
func say(ctx context.Context, c Config, t sqlstore.Table, cols columns) {
	if c.Logger == nil {
		return
	}
	if !t.Fingerprint {
		c.Logger.WarnContext(ctx, "table "+t.Claims+" has no fingerprint column: one key with two contents is taken for a duplicate, and a claim that its handler split cannot be marked; to have both: ALTER TABLE "+t.Claims+" ADD COLUMN fingerprint VARBINARY(255)")
	}
	if cols.local {
		c.Logger.WarnContext(ctx, "column processed_at of "+t.Claims+" had the session's time until now and has UTC from now on: ages of older rows may be off by hours")
	}
}

// mayUse tries the privileges with statements that touch no row.
func mayUse(ctx context.Context, conn *sql.Conn, t sqlstore.Table, c Config) (err error) {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var errs []error
	for _, q := range []struct {
		table, query, need string
		optional           bool
	}{
		{t.Claims, "SELECT 1 FROM " + t.Claims + " WHERE 1 = 0", "SELECT, INSERT, UPDATE, DELETE", false},
		{t.Claims, "INSERT INTO " + t.Claims + " (consumer_name, message_key, processed_at) SELECT 'c', 'k', UTC_TIMESTAMP(6) FROM DUAL WHERE 1 = 0", "SELECT, INSERT, UPDATE, DELETE", false},
		{t.Claims, "UPDATE " + t.Claims + " SET consumer_name = consumer_name WHERE 1 = 0", "SELECT, INSERT, UPDATE, DELETE", false},
		{t.Claims, "DELETE FROM " + t.Claims + " WHERE 1 = 0", "DELETE", true},
		{t.Consumers, "SELECT 1 FROM " + t.Consumers + " WHERE 1 = 0", "SELECT, INSERT, UPDATE", false},
		{t.Consumers, "INSERT INTO " + t.Consumers + " (name, service, queue, key_rule, mode, horizon, former_names) SELECT 'c', '', '', '', '', UTC_TIMESTAMP(6), '' FROM DUAL WHERE 1 = 0", "SELECT, INSERT, UPDATE", false},
		{t.Keeping, "SELECT 1 FROM " + t.Keeping + " WHERE 1 = 0", "SELECT", false},
	} {
		_, err := tx.ExecContext(ctx, q.query)
		switch n := number(err); {
		case err == nil:
		case n != privilegeOfTable && n != privilegeOfColumn:
			return err
		case q.optional && c.Logger != nil:
			c.Logger.WarnContext(ctx, "this user may not delete from "+t.Claims+": old claims cannot be purged by it; to allow it: GRANT DELETE ON "+t.Claims+" TO it")
		case !q.optional:
			errs = append(errs, errors.New("table "+q.table+": this user may not "+strings.Fields(q.query)[0]+": GRANT "+q.need+" ON "+q.table+" TO it"))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return inbox.ConfigError(opOpen, err)
	}
	return nil
}
