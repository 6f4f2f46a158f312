package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// Migrations are the numbered files of one dialect, one statement each, with
// the default table names in them.
type Migrations struct {
	// Files whose names begin with their number; they run in this order.
	Files fs.FS
	// Begin opens a transaction that keeps other migrations out.
	Begin string
	// Lock keeps other migrations out where a transaction does not, since DDL ends
	// it; unlock undoes that. Defaults to nil: Begin is enough.
	Lock func(ctx context.Context, conn *sql.Conn) (unlock func(context.Context) error, err error)
	// Track makes the table of what was applied, named by %s.
	Track string
	// Quote an identifier.
	Quote func(string) string
	// Bind starts the arguments of one statement.
	Bind func() *Binder
}

// trackTable records which files were applied.
const trackTable = "sekali_migrations"

var names = regexp.MustCompile(`\b(` + DefaultTable + `|` + ConsumerTable + `)\b`)

// file returns the text of one migration for the table names.
func (m Migrations) file(name string, t Table) (string, error) {
	text, err := fs.ReadFile(m.Files, name)
	if err != nil {
		return "", err
	}
	if t.Name == DefaultTable && t.Schema == "" {
		return string(text), nil
	}
	return names.ReplaceAllStringFunc(string(text), func(name string) string {
		if name == ConsumerTable {
			return t.Consumers
		}
		return t.Claims
	}), nil
}

// list returns the names of the files, in order.
func (m Migrations) list() ([]string, error) { return fs.Glob(m.Files, "*.sql") }

// Schema returns all statements, fit to paste into any migration tool.
func (m Migrations) Schema(t Table) string {
	files, err := m.list()
	if err != nil {
		panic(err) // the pattern is constant and the files are embedded
	}
	var sb strings.Builder
	for i, name := range files {
		text, err := m.file(name, t)
		if err != nil {
			panic(err)
		}
		if i > 0 {
			sb.WriteString("\n")
		}
		fmt.Fprintf(&sb, "-- %s\n%s", name, text)
	}
	return sb.String()
}

// Run applies what was not applied yet, all in one transaction where the
// database can. Safe to call from several processes at once.
func (m Migrations) Run(ctx context.Context, db *sql.DB, t Table) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := conn.Close(); !errors.Is(cerr, sql.ErrConnDone) {
			err = errors.Join(err, cerr)
		}
	}()
	if m.Lock != nil {
		unlock, err := m.Lock(ctx, conn)
		if err != nil {
			return err
		}
		defer func() {
			uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
			defer cancel()
			if unlock(uctx) != nil {
				_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the lock goes with the connection
			}
		}()
	}
	if _, err := conn.ExecContext(ctx, m.Begin); err != nil {
		return err
	}
	if err := m.apply(ctx, conn, t); err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return err
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}

func (m Migrations) apply(ctx context.Context, conn *sql.Conn, t Table) error {
	track := m.Quote(trackTable)
	if t.Schema != "" {
		track = m.Quote(t.Schema) + "." + track
	}
	if _, err := conn.ExecContext(ctx, fmt.Sprintf(m.Track, track)); err != nil {
		return fmt.Errorf("create table %s: %w", track, err)
	}
	files, err := m.list()
	if err != nil {
		return err
	}
	for _, name := range files {
		text, err := m.file(name, t)
		if err != nil {
			return err
		}
		// Each claims table has its own history.
		id := t.Name + "/" + strings.TrimSuffix(name, ".sql")
		b := m.Bind()
		var n int
		if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM "+track+" WHERE name = "+b.Text(id), b.Args...).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("migration %s: %w", name, err)
		}
		b = m.Bind()
		if _, err := conn.ExecContext(ctx, "INSERT INTO "+track+" (name) VALUES ("+b.Text(id)+")", b.Args...); err != nil {
			return err
		}
	}
	return nil
}
