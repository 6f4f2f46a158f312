package sqliteinbox

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// table is a live table as SQLite describes it.
type table struct {
	kind     string // "" when there is none
	temp     bool
	sql      string
	triggers []string
	columns  []column
	unique   []index
}

type column struct {
	name, typ    string
	notNull, def bool
}

type index struct {
	partial bool
	columns []string
	coll    []string
}

func readTable(ctx context.Context, conn *sql.Conn, name string) (t table, err error) {
	err = conn.QueryRowContext(ctx, `SELECT type, sql, temp FROM (
		SELECT name, type, sql, 0 AS temp FROM main.sqlite_master UNION ALL SELECT name, type, sql, 1 FROM temp.sqlite_master)
		WHERE lower(name) = lower(?) AND type IN ('table', 'view') ORDER BY temp DESC LIMIT 1`, name).Scan(&t.kind, &t.sql, &t.temp)
	if errors.Is(err, sql.ErrNoRows) {
		return table{}, nil
	}
	if err != nil {
		return t, err
	}
	if t.triggers, err = strs(ctx, conn, `SELECT name FROM sqlite_master WHERE type = 'trigger' AND lower(tbl_name) = lower(?)`, name); err != nil {
		return t, err
	}
	if err := t.readColumns(ctx, conn, name); err != nil {
		return t, err
	}
	return t, t.readIndexes(ctx, conn, name)
}

func (t *table) readColumns(ctx context.Context, conn *sql.Conn, name string) (err error) {
	rows, err := conn.QueryContext(ctx, `SELECT lower(name), upper(type), "notnull", dflt_value IS NOT NULL FROM pragma_table_xinfo(?)`, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var c column
		if err := rows.Scan(&c.name, &c.typ, &c.notNull, &c.def); err != nil {
			return err
		}
		t.columns = append(t.columns, c)
	}
	return rows.Err()
}

func (t *table) readIndexes(ctx context.Context, conn *sql.Conn, name string) error {
	uniques, err := strs(ctx, conn, `SELECT name FROM pragma_index_list(?) WHERE "unique"`, name)
	if err != nil {
		return err
	}
	for _, u := range uniques {
		var ix index
		if err := conn.QueryRowContext(ctx, `SELECT partial FROM pragma_index_list(?) WHERE name = ?`, name, u).Scan(&ix.partial); err != nil {
			return err
		}
		if ix.columns, err = strs(ctx, conn, `SELECT coalesce(lower(name), '') FROM pragma_index_xinfo(?) WHERE key ORDER BY seqno`, u); err != nil {
			return err
		}
		if ix.coll, err = strs(ctx, conn, `SELECT upper(coll) FROM pragma_index_xinfo(?) WHERE key ORDER BY seqno`, u); err != nil {
			return err
		}
		t.unique = append(t.unique, ix)
	}
	return nil
}

func strs(ctx context.Context, conn *sql.Conn, query, arg string) (out []string, err error) {
	rows, err := conn.QueryContext(ctx, query, arg)
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

// judge adds a sentence for every reason why claims in this table would not
// hold, and notes what it can do.
func (t table) judge(f *sqlstore.Faults, names *sqlstore.Table) {
	switch {
	case t.kind != "table":
		f.Addf("is a %s: claims need a table of their own, set Table to another name", t.kind)
		return
	case t.temp:
		f.Addf("is temporary, it belongs to one connection: create it without TEMP")
		return
	case strings.HasPrefix(strings.ToUpper(t.sql), "CREATE VIRTUAL"):
		f.Addf("is a virtual table: claims need an ordinary one, set Table to another name")
		return
	}
	if len(t.triggers) > 0 {
		f.Addf("has the trigger %s, which may swallow a claim or change it: drop it", strings.Join(t.triggers, ", "))
	}
	t.judgeColumns(f, names)
	t.judgeKey(f)
}

func (t table) judgeColumns(f *sqlstore.Faults, names *sqlstore.Table) {
	names.Fingerprint = false
	known := map[string]bool{"consumer_name": false, "message_key": false, "processed_at": false, "fingerprint": true}
	for _, c := range t.columns {
		if _, ok := known[c.name]; ok {
			known[c.name] = true
		} else if c.notNull && !c.def {
			f.Addf("column %s is NOT NULL without a default, so a claim cannot be inserted: give it a default, or set Table to another name", c.name)
		}
		switch c.name {
		case "consumer_name", "message_key":
			if !c.notNull {
				f.Addf("column %s may be NULL: SQLite allows many NULLs in a key; copy into a table made by sqliteinbox.Schema", c.name)
			}
			if !textAffinity(c.typ) {
				f.Addf("column %s has type %q, which turns keys like 007 into numbers: use TEXT; copy into a table made by sqliteinbox.Schema", c.name, c.typ)
			}
		case "processed_at":
			if !c.def {
				f.Addf("column processed_at has no default: use DEFAULT CURRENT_TIMESTAMP; copy into a table made by sqliteinbox.Schema")
			}
		case "fingerprint":
			names.Fingerprint = true
		}
	}
	for _, c := range []string{"consumer_name", "message_key", "processed_at"} {
		if !known[c] {
			f.Addf("has no column %s: set Table to another name, and ask this table through Config.Already", c)
		}
	}
}

// judgeKey wants one unique key, on exactly the two columns, compared byte by
// byte.
func (t table) judgeKey(f *sqlstore.Faults) {
	found := false
	for _, ix := range t.unique {
		sorted := slices.Sorted(slices.Values(ix.columns))
		switch {
		case slices.Equal(sorted, []string{"consumer_name", "message_key"}) && !ix.partial:
			found = true
			for i, c := range ix.coll {
				if c != "BINARY" {
					f.Addf("column %s is compared with collation %s, so different keys look alike: use BINARY; copy into a table made by sqliteinbox.Schema", ix.columns[i], c)
				}
			}
		default:
			f.Addf("has another unique key on (%s), so a claim may be refused that is not there: drop it", strings.Join(ix.columns, ", "))
		}
	}
	if !found {
		f.Addf("has no unique key on exactly (consumer_name, message_key): CREATE UNIQUE INDEX sekali_claim ON %s (consumer_name, message_key)", f.Table())
	}
}

// textAffinity is SQLite's rule for a declared type.
func textAffinity(typ string) bool {
	return !strings.Contains(typ, "INT") && (strings.Contains(typ, "CHAR") || strings.Contains(typ, "CLOB") || strings.Contains(typ, "TEXT"))
}
