package mysqlinbox

import (
	"context"
	"database/sql"
	"errors"
	"strings"
)

// relation is a live table as the server describes it.
type relation struct {
	name        string // quoted
	kind        string // "" when there is none
	engine      string
	partitioned bool
	columns     []column
	unique      []index
	triggers    []string
	foreign     []string
}

type column struct {
	name, typ, collation string
	length               int // bytes of a VARBINARY, characters of a VARCHAR
	notNull, def         bool
	defaultsToNow        bool
	onUpdate, generated  bool
}

type index struct {
	name    string
	columns []string
	whole   bool
}

func readRelation(ctx context.Context, conn *sql.Conn, s settings, schema, name string) (r relation, err error) {
	r.name = quote(schema) + "." + quote(name)
	if s.lowerCaseNames {
		schema, name = strings.ToLower(schema), strings.ToLower(name)
	}
	in := " WHERE TABLE_SCHEMA = " + text(schema) + " AND TABLE_NAME = " + text(name)
	var engine, options sql.NullString
	err = conn.QueryRowContext(ctx, "SELECT TABLE_TYPE, ENGINE, CREATE_OPTIONS FROM information_schema.TABLES"+in).Scan(&r.kind, &engine, &options)
	if err != nil && !errors.Is(err, sql.ErrNoRows) || r.kind == "VIEW" {
		return r, err
	}
	r.engine, r.partitioned = engine.String, strings.Contains(options.String, "partitioned")
	// A temporary table hides the one of the same name, and may not be listed.
	var found, definition string
	err = conn.QueryRowContext(ctx, "SHOW CREATE TABLE "+r.name).Scan(&found, &definition)
	if number(err) == noSuchTable {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	if strings.HasPrefix(definition, "CREATE TEMPORARY") {
		r.kind = "TEMPORARY"
		return r, nil
	}
	if r.triggers, err = strs(ctx, conn, "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = "+text(schema)+" AND EVENT_OBJECT_TABLE = "+text(name)+" ORDER BY 1"); err != nil {
		return r, err
	}
	if r.foreign, err = strs(ctx, conn, "SELECT CONSTRAINT_NAME FROM information_schema.TABLE_CONSTRAINTS"+in+" AND CONSTRAINT_TYPE = 'FOREIGN KEY' ORDER BY 1"); err != nil {
		return r, err
	}
	if err := r.readColumns(ctx, conn, in); err != nil {
		return r, err
	}
	return r, r.readIndexes(ctx, conn, in)
}

func strs(ctx context.Context, conn *sql.Conn, query string) (out []string, err error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

func (r *relation) readColumns(ctx context.Context, conn *sql.Conn, in string) (err error) {
	rows, err := conn.QueryContext(ctx, "SELECT LOWER(COLUMN_NAME), LOWER(DATA_TYPE), COLLATION_NAME, COALESCE(CHARACTER_MAXIMUM_LENGTH, 0), IS_NULLABLE = 'NO', COLUMN_DEFAULT, LOWER(EXTRA) FROM information_schema.COLUMNS"+in+" ORDER BY ORDINAL_POSITION")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var c column
		var collation, def sql.NullString
		var extra string
		if err := rows.Scan(&c.name, &c.typ, &collation, &c.length, &c.notNull, &def, &extra); err != nil {
			return err
		}
		c.collation = collation.String
		c.def = def.Valid || strings.Contains(extra, "auto_increment")
		c.defaultsToNow = strings.HasPrefix(strings.ToLower(def.String), "current_timestamp")
		c.onUpdate = strings.Contains(extra, "on update")
		// MySQL writes DEFAULT_GENERATED for a default that is an expression.
		c.generated = strings.Contains(extra, "virtual") || strings.Contains(extra, "stored")
		r.columns = append(r.columns, c)
	}
	return rows.Err()
}

func (r *relation) readIndexes(ctx context.Context, conn *sql.Conn, in string) (err error) {
	rows, err := conn.QueryContext(ctx, "SELECT INDEX_NAME, LOWER(COLUMN_NAME), SUB_PART IS NULL AND COLUMN_NAME IS NOT NULL FROM information_schema.STATISTICS"+in+" AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, COLUMN_NAME")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		var column sql.NullString // NULL: an expression
		var whole bool
		if err := rows.Scan(&name, &column, &whole); err != nil {
			return err
		}
		if n := len(r.unique); n == 0 || r.unique[n-1].name != name {
			r.unique = append(r.unique, index{name: name, whole: true})
		}
		ix := &r.unique[len(r.unique)-1]
		ix.columns, ix.whole = append(ix.columns, column.String), ix.whole && whole
	}
	return rows.Err()
}
