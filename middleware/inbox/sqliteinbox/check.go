package sqliteinbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// check reads settings and table, completes t, and returns the name of the
// database file.
func check(ctx context.Context, db *sql.DB, t *sqlstore.Table, c Config) (file string, err error) {
	conn, release, err := fresh(ctx, db)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, release()) }()

	s, err := readSettings(ctx, conn)
	if err != nil {
		return "", err
	}
	f := sqlstore.NewFaults(t.Claims)
	live, err := readTable(ctx, conn, t.Name)
	if err != nil {
		return "", err
	}
	registry, err := readTable(ctx, conn, sqlstore.ConsumerTable)
	if err != nil {
		return "", err
	}
	if live.kind == "" {
		return "", inbox.ConfigError(opOpen, missing(t.Claims, s))
	}
	if registry.kind == "" {
		return "", inbox.ConfigError(opOpen, missing(t.Consumers, s))
	}
	live.judge(f, t)
	var errs []error
	if err := f.Err(); err != nil {
		errs = append(errs, err)
	}
	for name, quoted := range map[string]string{sqlstore.KeepingTable: t.Keeping, sqlstore.AuditTable: t.Audit} {
		if other, err := readTable(ctx, conn, name); err != nil {
			return "", err
		} else if other.kind == "" {
			errs = append(errs, missing(quoted, s))
		}
	}
	errs = append(errs, s.judge(c)...)
	if err := errors.Join(errs...); err != nil {
		return "", inbox.ConfigError(opOpen, err)
	}
	logger := c.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if !t.Fingerprint {
		logger.WarnContext(ctx, "table "+t.Claims+" has no fingerprint column: one key with two contents is taken for a duplicate, and a claim that its handler split cannot be marked; to have both: ALTER TABLE "+t.Claims+" ADD COLUMN fingerprint BLOB")
	}
	return s.file, nil
}

// fresh gives a connection as the pool opens them: one that is idle may have
// settings that only it was given.
func fresh(ctx context.Context, db *sql.DB) (_ *sql.Conn, release func() error, err error) {
	var held []*sql.Conn
	release = func() error {
		var err error
		for _, c := range held {
			err = errors.Join(err, c.Close())
		}
		return err
	}
	st := db.Stats()
	n := st.Idle + 1
	if st.MaxOpenConnections > 0 {
		n = max(1, min(n, st.MaxOpenConnections-st.InUse))
	}
	for range n {
		c, err := db.Conn(ctx)
		if err != nil {
			return nil, nil, errors.Join(err, release())
		}
		held = append(held, c)
	}
	return held[len(held)-1], release, nil
}

// missing says which table is not there, and why it may be.
func missing(name string, s settings) error {
	if s.file == "" {
		return fmt.Errorf("table %s does not exist on a fresh connection: a database in memory belongs to one connection; use a file, or db.SetMaxOpenConns(1) before sqliteinbox.Migrate", name)
	}
	return fmt.Errorf("table %s does not exist in %s: call sqliteinbox.Migrate, or run the statements of sqliteinbox.Schema with your migration tool", name, s.file)
}

// settings of a connection.
type settings struct {
	file        string
	busyTimeout int
	journalMode string
	synchronous int
	queryOnly   bool
}

func readSettings(ctx context.Context, conn *sql.Conn) (s settings, err error) {
	for _, r := range []struct {
		query string
		into  any
	}{
		{"SELECT coalesce((SELECT file FROM pragma_database_list WHERE name = 'main'), '')", &s.file},
		{"PRAGMA busy_timeout", &s.busyTimeout},
		{"PRAGMA journal_mode", &s.journalMode},
		{"PRAGMA synchronous", &s.synchronous},
		{"PRAGMA query_only", &s.queryOnly},
	} {
		if err := conn.QueryRowContext(ctx, r.query).Scan(r.into); err != nil {
			return s, err
		}
	}
	s.journalMode = strings.ToUpper(s.journalMode)
	return s, nil
}

// Values of PRAGMA synchronous.
const (
	syncFull  = 2
	syncExtra = 3
)

func (s settings) judge(c Config) (errs []error) {
	if s.busyTimeout <= 0 {
		errs = append(errs, errors.New("busy_timeout is 0, so a write fails at once while another connection writes: open the database with _pragma=busy_timeout(10000), or use sqliteinbox.DSN"))
	}
	if s.queryOnly {
		errs = append(errs, errors.New("query_only is on: an inbox must write; leave it out of the data source name"))
	}
	if c.AllowLossOnPowerFailure {
		return errs
	}
	const orAllow = "; use sqliteinbox.DSN, or set AllowLossOnPowerFailure"
	switch s.journalMode {
	case "WAL", "TRUNCATE", "PERSIST":
		if s.synchronous < syncFull {
			errs = append(errs, errors.New("synchronous is below FULL, so a power failure may undo commits whose messages are acknowledged: open with _pragma=synchronous(FULL)"+orAllow))
		}
	case "DELETE":
		if s.synchronous < syncExtra {
			errs = append(errs, errors.New("journal_mode is DELETE and synchronous below EXTRA, so a power failure may undo the last commit, whose message is acknowledged: open with _pragma=journal_mode(WAL) and _pragma=synchronous(FULL)"+orAllow))
		}
	default:
		errs = append(errs, errors.New("journal_mode is "+s.journalMode+", so a crash may lose commits or damage the file: open with _pragma=journal_mode(WAL)"+orAllow))
	}
	return errs
}
