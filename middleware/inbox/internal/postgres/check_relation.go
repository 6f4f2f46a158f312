package postgres

import (
	"context"
	"database/sql"
	"errors"
	"strings"
)

// relation is a live table as the catalog describes it.
type relation struct {
	name, user               string
	oid                      int64 // 0 when there is none
	kind, persistence        string
	rowSecurity              bool
	mayRead, mayWrite        bool
	mayDelete                bool
	columns                  []column
	unique                   []index
	triggers, rules, inherit []string
}

type column struct {
	name, typ            string
	length               int // of varchar(n); 0 is unlimited
	notNull, def, folded bool
}

type index struct {
	name                               string
	columns                            []string
	valid, immediate, whole, byteEqual bool
}

func readRelation(ctx context.Context, tx *sql.Tx, name string) (r relation, err error) {
	r.name = name
	var oid sql.NullInt64
	if err := tx.QueryRowContext(ctx, `SELECT to_regclass($1::text)::oid::bigint`, name).Scan(&oid); err != nil || !oid.Valid {
		return r, err
	}
	r.oid = oid.Int64
	if err := tx.QueryRowContext(ctx, `SELECT relkind::text, relpersistence::text, row_security_active(oid),
		has_table_privilege(oid, 'SELECT'), has_table_privilege(oid, 'INSERT') AND has_any_column_privilege(oid, 'UPDATE'), has_table_privilege(oid, 'DELETE'), current_user::text
		FROM pg_class WHERE oid = $1::bigint::oid`, r.oid).Scan(&r.kind, &r.persistence, &r.rowSecurity, &r.mayRead, &r.mayWrite, &r.mayDelete, &r.user); err != nil {
		return r, err
	}
	if r.triggers, err = r.strs(ctx, tx, `SELECT tgname::text FROM pg_trigger WHERE tgrelid = $1::bigint::oid AND NOT tgisinternal AND tgenabled <> 'D' ORDER BY 1`); err != nil {
		return r, err
	}
	if r.rules, err = r.strs(ctx, tx, `SELECT rulename::text FROM pg_rewrite WHERE ev_class = $1::bigint::oid AND rulename <> '_RETURN' AND ev_enabled <> 'D' ORDER BY 1`); err != nil {
		return r, err
	}
	if r.inherit, err = r.strs(ctx, tx, `SELECT i.inhrelid::regclass::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent WHERE i.inhparent = $1::bigint::oid AND c.relkind = 'r' ORDER BY 1`); err != nil {
		return r, err
	}
	if err := r.readColumns(ctx, tx); err != nil {
		return r, err
	}
	return r, r.readIndexes(ctx, tx)
}

func (r *relation) strs(ctx context.Context, tx *sql.Tx, query string) (out []string, err error) {
	rows, err := tx.QueryContext(ctx, query, r.oid)
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

func (r *relation) readColumns(ctx context.Context, tx *sql.Tx) (err error) {
	rows, err := tx.QueryContext(ctx, `SELECT a.attname::text, a.atttypid::regtype::text, CASE WHEN a.atttypmod > 4 THEN a.atttypmod - 4 ELSE 0 END,
		a.attnotnull, a.atthasdef OR a.attidentity <> '', NOT coalesce(c.collisdeterministic, true)
		FROM pg_attribute a LEFT JOIN pg_collation c ON c.oid = a.attcollation
		WHERE a.attrelid = $1::bigint::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, r.oid)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var c column
		if err := rows.Scan(&c.name, &c.typ, &c.length, &c.notNull, &c.def, &c.folded); err != nil {
			return err
		}
		r.columns = append(r.columns, c)
	}
	return rows.Err()
}

func (r *relation) readIndexes(ctx context.Context, tx *sql.Tx) (err error) {
	rows, err := tx.QueryContext(ctx, `SELECT i.indexrelid::regclass::text, i.indisvalid, i.indimmediate, i.indpred IS NULL AND i.indexprs IS NULL,
		coalesce(string_agg(a.attname::text, ',' ORDER BY a.attname), ''), coalesce(bool_and(coalesce(c.collisdeterministic, true)), true)
		FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[], i.indcollation::oid[]) WITH ORDINALITY k(attnum, coll, n)
		LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum LEFT JOIN pg_collation c ON c.oid = k.coll
		WHERE i.indrelid = $1::bigint::oid AND i.indisunique AND k.n <= i.indnkeyatts GROUP BY 1, 2, 3, 4 ORDER BY 1`, r.oid)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var ix index
		var columns string
		if err := rows.Scan(&ix.name, &ix.valid, &ix.immediate, &ix.whole, &columns, &ix.byteEqual); err != nil {
			return err
		}
		ix.columns = strings.Split(columns, ",")
		r.unique = append(r.unique, ix)
	}
	return rows.Err()
}
