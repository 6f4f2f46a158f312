package migrate

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// Dialect is how one database keeps migrations apart and remembers them.
type Dialect struct {
	// begin opens a transaction that keeps other migrations out.
	begin string
	// lock keeps other migrations out where a transaction does not, since DDL ends
	// it; unlock undoes that. Nil: begin is enough.
	lock func(ctx context.Context, conn *sql.Conn) (unlock func(context.Context) error, err error)
	// track makes the table of what was applied, named by %s.
	track string
	// quote an identifier.
	quote func(string) string
	// text writes a string into a statement, so that it means the same on every
	// driver and behind every pooler.
	text func(string) string
}

// Set is the numbered files of one room in one dialect, one statement each.
type Set struct {
	// Dialect of the files.
	Dialect Dialect
	// Files whose names begin with their number; they run in this order.
	Files fs.FS
	// Schema that holds the tables; "" is the search path or the database.
	Schema string
	// History under which applied files are remembered: each room and each table
	// with a name of its own has one.
	History string
	// Rename puts other table names into a file's text. Defaults to nil: as it is.
	Rename func(text string) string
}

// trackTable records which files were applied.
const trackTable = "sekali_migrations"

// unlockTimeout bounds what is done to give a lock back.
const unlockTimeout = 5 * time.Second

func (s Set) file(name string) (string, error) {
	text, err := fs.ReadFile(s.Files, name)
	if err != nil {
		return "", err
	}
	if s.Rename == nil {
		return string(text), nil
	}
	return s.Rename(string(text)), nil
}

// list returns the names of the files, in order.
func (s Set) list() ([]string, error) { return fs.Glob(s.Files, "*.sql") }

// Text returns all statements, fit to paste into any migration tool.
func (s Set) Text() string {
	files, err := s.list()
	if err != nil {
		panic(err) // the pattern is constant and the files are embedded
	}
	var sb strings.Builder
	for i, name := range files {
		text, err := s.file(name)
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
func (s Set) Run(ctx context.Context, db *sql.DB) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := conn.Close(); !errors.Is(cerr, sql.ErrConnDone) {
			err = errors.Join(err, cerr)
		}
	}()
	if s.Dialect.lock != nil {
		unlock, err := s.Dialect.lock(ctx, conn)
		if err != nil {
			return err
		}
		defer func() {
			uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
			defer cancel()
			if unlock(uctx) != nil {
				_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the lock goes with the connection
			}
		}()
	}
	if _, err := conn.ExecContext(ctx, s.Dialect.begin); err != nil {
		return err
	}
	if err := s.apply(ctx, conn); err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return err
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}

func (s Set) apply(ctx context.Context, conn *sql.Conn) error {
	d := s.Dialect
	track := d.quote(trackTable)
	if s.Schema != "" {
		track = d.quote(s.Schema) + "." + track
	}
	if _, err := conn.ExecContext(ctx, fmt.Sprintf(d.track, track)); err != nil {
		return fmt.Errorf("create table %s: %w", track, err)
	}
	files, err := s.list()
	if err != nil {
		return err
	}
	for _, name := range files {
		text, err := s.file(name)
		if err != nil {
			return err
		}
		id := d.text(s.History + "/" + strings.TrimSuffix(name, ".sql"))
		var n int
		if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM "+track+" WHERE name = "+id).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("migration %s: %w", name, err)
		}
		if _, err := conn.ExecContext(ctx, "INSERT INTO "+track+" (name) VALUES ("+id+")"); err != nil {
			return err
		}
	}
	return nil
}
