package dlq

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sekali-mq/sekali/internal/migrate"
)

// dialect is what differs between databases, besides the files in schema.
type dialect struct {
	name    string
	migrate migrate.Dialect
	// numbered placeholders ($1) instead of question marks.
	numbered bool
	// binaryText: texts are bound as bytes, since columns are binary.
	binaryText bool
	// now is the database's clock.
	now string
	// micros reads a time column, named by %s, as microseconds since 1970.
	micros string
	// at makes a time of a placeholder %s for microseconds since 1970.
	at string
	// holds is true where the text of a column contains that of a placeholder.
	holds string
	// forUpdate locks the rows of a SELECT.
	forUpdate string
	// returning: INSERT returns the id.
	returning bool
	// readTx: reads need a transaction, since connections may not autocommit.
	readTx bool
	// immediate: a write transaction is begun with BEGIN IMMEDIATE, one at a time.
	immediate bool
	// check reads settings of a connection that would lose letters, and the unique
	// index that keeps copies from becoming two letters.
	check func(ctx context.Context, conn *sql.Conn) (faults []string, err error)
}

var dialects = map[string]*dialect{"postgres": &postgres, "mysql": &mysql, "sqlite": &sqlite}

var postgres = dialect{
	name: "postgres", migrate: migrate.Postgres, numbered: true,
	now: "clock_timestamp()", micros: "(EXTRACT(EPOCH FROM %s) * 1000000)::bigint",
	at:    "(TIMESTAMPTZ 'epoch' + %s::bigint * INTERVAL '1 microsecond')",
	holds: "position(%[2]s::text in %[1]s) > 0", forUpdate: " FOR UPDATE", returning: true, check: checkPostgres,
}

var mysql = dialect{
	name: "mysql", migrate: migrate.MySQL, binaryText: true,
	now: "UTC_TIMESTAMP(6)", micros: "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', %s)",
	at: "TIMESTAMPADD(MICROSECOND, %s, '1970-01-01 00:00:00')", holds: "LOCATE(%[2]s, %[1]s) > 0",
	forUpdate: " FOR UPDATE", readTx: true, check: checkMySQL,
}

var sqlite = dialect{
	name: "sqlite", migrate: migrate.SQLite,
	now: "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)", micros: "%s * 1000", at: "(%s / 1000)",
	holds: "instr(%[1]s, %[2]s) > 0", returning: true, immediate: true, check: checkSQLite,
}

// stmt is a statement with its arguments, built from left to right.
type stmt struct {
	d    *dialect
	text strings.Builder
	args []any
}

func (d *dialect) stmt(parts ...string) *stmt { return (&stmt{d: d}).add(parts...) }

func (s *stmt) add(parts ...string) *stmt {
	for _, p := range parts {
		s.text.WriteString(p)
	}
	return s
}

// arg binds a value and returns its placeholder.
func (s *stmt) arg(v any) string {
	if t, ok := v.(string); ok && s.d.binaryText {
		v = []byte(t)
	}
	s.args = append(s.args, v)
	if s.d.numbered {
		return "$" + strconv.Itoa(len(s.args))
	}
	return "?"
}

// time binds a time; the zero one is NULL.
func (s *stmt) time(t time.Time) string {
	if t.IsZero() {
		return "NULL"
	}
	return fmt.Sprintf(s.d.at, s.arg(t.UnixMicro()))
}

// list binds values and returns them in parentheses.
func list[T any](s *stmt, vs []T) string {
	marks := make([]string, len(vs))
	for i, v := range vs {
		marks[i] = s.arg(v)
	}
	return "(" + strings.Join(marks, ", ") + ")"
}

// micros reads a time column.
func (d *dialect) readTime(column string) string { return fmt.Sprintf(d.micros, column) }

// querier is a connection, a transaction or a pool.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (s *stmt) exec(ctx context.Context, q querier) error {
	_, err := q.ExecContext(ctx, s.text.String(), s.args...)
	return err
}

// insert returns the id of the row.
func (s *stmt) insert(ctx context.Context, q querier) (id int64, err error) {
	if s.d.returning {
		return id, s.add(" RETURNING id").one(ctx, q, &id)
	}
	res, err := q.ExecContext(ctx, s.text.String(), s.args...)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// each calls fn for each row.
func (s *stmt) each(ctx context.Context, q querier, fn func(scan func(...any) error) error) error {
	rows, err := q.QueryContext(ctx, s.text.String(), s.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// one reads the first row; sql.ErrNoRows when there is none.
func (s *stmt) one(ctx context.Context, q querier, into ...any) error {
	found := false
	err := s.each(ctx, q, func(scan func(...any) error) error {
		if found {
			return nil
		}
		found = true
		return scan(into...)
	})
	if err == nil && !found {
		return sql.ErrNoRows
	}
	return err
}

// timeOf makes a time of microseconds; NULL is the zero one.
func timeOf(micros sql.NullInt64) time.Time {
	if !micros.Valid {
		return time.Time{}
	}
	return time.UnixMicro(micros.Int64).UTC()
}
