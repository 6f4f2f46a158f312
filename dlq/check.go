package dlq

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// columns that each table must have.
var columns = map[string]string{
	"sekali_dead_letters":       letterColumns + ", envelope, body",
	"sekali_dead_letter_events": "id, letter_id, at, what, state, run_id, n, who, why, note",
	"sekali_runs":               "id, state, reason, who, why, config, counts, queues, bound, last_id, begun_at, changed_at",
	"sekali_run_leases":         "queue, run_id, owner, until",
}

// check refuses tables and settings under which a letter could be lost.
func (l *Letters) check(ctx context.Context) error {
	for table, cols := range columns {
		err := l.read(ctx, func(q querier) error {
			return l.d.stmt("SELECT ", cols, " FROM ", table, " WHERE 1 = 0").each(ctx, q, func(func(...any) error) error { return nil })
		})
		if err != nil && ctx.Err() == nil {
			return inbox.Configf(opOpen, "table %s cannot be read, or lacks a column: call dlq.Migrate, or run the statements of dlq.Schema(%q) with your migration tool: %w", table, l.d.name, err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", opOpen, err)
		}
	}
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", opOpen, err)
	}
	defer func() { _ = conn.Close() }()
	faults, err := l.d.check(ctx, conn)
	if err != nil {
		return fmt.Errorf("%s: %w", opOpen, err)
	}
	var errs []error
	for _, f := range faults {
		switch {
		case strings.HasPrefix(f, durably):
			l.durably = f
		case strings.HasPrefix(f, loses) && l.config.AllowLossOnCrash:
		default:
			errs = append(errs, errors.New(strings.TrimPrefix(f, loses)))
		}
	}
	if len(errs) > 0 {
		return inbox.ConfigError(opOpen, errors.Join(errs...))
	}
	return nil
}

const (
	// durably begins the statement that makes a transaction's commit wait for the
	// disk.
	durably = "SET LOCAL"
	// loses marks a fault that Config.AllowLossOnCrash accepts.
	loses = "loses: "

	noIdentity = "the unique index on sekali_dead_letters (identity) is missing, so that two copies could become two letters: run the statements of dlq.Schema again"
	orAllow    = ", or set AllowLossOnCrash"
)

func ask(ctx context.Context, conn *sql.Conn, query string, into ...any) error {
	return conn.QueryRowContext(ctx, query).Scan(into...)
}

func checkPostgres(ctx context.Context, conn *sql.Conn) (faults []string, err error) {
	var sync, recovery string
	var unique int
	if err := ask(ctx, conn, `SELECT current_setting('synchronous_commit'), current_setting('transaction_read_only'),
		(SELECT count(*) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
			WHERE i.indrelid = 'sekali_dead_letters'::regclass AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1 AND i.indpred IS NULL AND a.attname = 'identity')`,
		&sync, &recovery, &unique); err != nil {
		return nil, err
	}
	if unique == 0 {
		faults = append(faults, noIdentity)
	}
	if sync == "off" {
		faults = append(faults, durably+" synchronous_commit = on")
	}
	return faults, nil
}

func checkMySQL(ctx context.Context, conn *sql.Conn) (faults []string, err error) {
	var mode, flush, engine string
	var unique int
	if err := ask(ctx, conn, "SELECT @@SESSION.sql_mode, CAST(@@GLOBAL.innodb_flush_log_at_trx_commit AS CHAR)", &mode, &flush); err != nil {
		return nil, err
	}
	if err := ask(ctx, conn, `SELECT COALESCE(MAX(engine), '') FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'sekali_dead_letters'`, &engine); err != nil {
		return nil, err
	}
	if err := ask(ctx, conn, `SELECT count(*) FROM (SELECT index_name FROM information_schema.statistics
		WHERE table_schema = DATABASE() AND table_name = 'sekali_dead_letters' AND non_unique = 0
		GROUP BY index_name HAVING MIN(column_name) = 'identity' AND count(*) = 1) x`, &unique); err != nil {
		return nil, err
	}
	if unique == 0 {
		faults = append(faults, noIdentity)
	}
	if !strings.EqualFold(engine, "InnoDB") {
		faults = append(faults, "sekali_dead_letters has engine "+engine+", which has no transactions: ALTER TABLE sekali_dead_letters ENGINE = InnoDB")
	}
	if !strings.Contains(mode, "STRICT_TRANS_TABLES") && !strings.Contains(mode, "STRICT_ALL_TABLES") {
		faults = append(faults, "sql_mode is not strict, so that the server would cut what does not fit: add sql_mode=TRADITIONAL (or STRICT_ALL_TABLES) to the data source name")
	}
	if flush != "1" && flush != "3" {
		faults = append(faults, loses+"innodb_flush_log_at_trx_commit is "+flush+", so a crash may undo commits whose letters are acknowledged: SET GLOBAL innodb_flush_log_at_trx_commit = 1"+orAllow)
	}
	return faults, nil
}

func checkSQLite(ctx context.Context, conn *sql.Conn) (faults []string, err error) {
	var journal string
	var busy, sync, unique int
	for _, r := range []struct {
		query string
		into  any
	}{
		{"PRAGMA busy_timeout", &busy},
		{"PRAGMA journal_mode", &journal},
		{"PRAGMA synchronous", &sync},
		{`SELECT count(*) FROM pragma_index_list('sekali_dead_letters') l JOIN pragma_index_info(l.name) i
			WHERE l."unique" = 1 AND l.partial = 0 AND i.name = 'identity' AND (SELECT count(*) FROM pragma_index_info(l.name)) = 1`, &unique},
	} {
		if err := ask(ctx, conn, r.query, r.into); err != nil {
			return nil, err
		}
	}
	const full, extra = 2, 3
	if unique == 0 {
		faults = append(faults, noIdentity)
	}
	if busy == 0 {
		faults = append(faults, "busy_timeout is 0, so that writers of other connections are errors: open with _pragma=busy_timeout(10000), see sqliteinbox.DSN")
	}
	switch strings.ToUpper(journal) {
	case "WAL":
		if sync < full {
			faults = append(faults, loses+"synchronous is below FULL, so a power failure may undo commits whose letters are acknowledged: open with _pragma=synchronous(FULL)"+orAllow)
		}
	case "DELETE", "TRUNCATE", "PERSIST":
		if sync < extra {
			faults = append(faults, loses+"journal_mode is "+journal+" and synchronous below EXTRA, so a power failure may undo the last commit: open with _pragma=journal_mode(WAL) and _pragma=synchronous(FULL)"+orAllow)
		}
	default:
		faults = append(faults, loses+"journal_mode is "+journal+", so a crash may undo commits or damage the file: open with _pragma=journal_mode(WAL)"+orAllow)
	}
	return faults, nil
}
