package mysqlinbox

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// settings of the server, and of a connection as the pool opens them.
type settings struct {
	// mariaDB takes several statements as one (BEGIN NOT ATOMIC), a limit for one
	// statement (SET STATEMENT), and INSERT ... RETURNING.
	mariaDB bool

	autocommit        bool
	isolation         string // as the variable spells it: READ-COMMITTED
	isolationVariable string
	lockWait          int // seconds
	rollbackOnTimeout bool
	clientCharset     string
	readOnly          bool // the server
	readOnlyTx        bool // the session
	lowerCaseNames    bool
	flushLog          string
	logBin            bool
	syncBinlog        string
	binlogFormat      string
	completion        string
	database          string
}

func readSettings(ctx context.Context, conn *sql.Conn) (s settings, err error) {
	v, err := variables(ctx, conn)
	if err != nil {
		return s, err
	}
	on := func(name string) bool { return v[name] == "ON" || v[name] == "1" }
	s = settings{
		mariaDB:           strings.Contains(v["version"], "MariaDB"),
		autocommit:        on("autocommit"),
		isolationVariable: "transaction_isolation",
		rollbackOnTimeout: on("innodb_rollback_on_timeout"),
		clientCharset:     v["character_set_client"],
		readOnly:          on("read_only") || on("super_read_only") || on("innodb_read_only"),
		readOnlyTx:        on("tx_read_only") || on("transaction_read_only"),
		lowerCaseNames:    v["lower_case_table_names"] != "0",
		flushLog:          v["innodb_flush_log_at_trx_commit"],
		logBin:            on("log_bin"),
		syncBinlog:        v["sync_binlog"],
		binlogFormat:      v["binlog_format"],
		completion:        v["completion_type"],
	}
	if s.lockWait, err = strconv.Atoi(v["innodb_lock_wait_timeout"]); err != nil {
		return s, inbox.Configf(opOpen, "the server does not tell innodb_lock_wait_timeout: is it MySQL or MariaDB, with InnoDB?")
	}
	if _, ok := v[s.isolationVariable]; !ok {
		s.isolationVariable = "tx_isolation" // MariaDB before 11.1
	}
	s.isolation = v[s.isolationVariable]
	var database sql.NullString
	if err := conn.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&database); err != nil {
		return s, err
	}
	s.database = database.String
	return s, nil
}

func variables(ctx context.Context, conn *sql.Conn) (v map[string]string, err error) {
	rows, err := conn.QueryContext(ctx, `SHOW SESSION VARIABLES WHERE Variable_name IN ('version', 'autocommit', 'tx_isolation', 'transaction_isolation',
		'innodb_lock_wait_timeout', 'innodb_rollback_on_timeout', 'character_set_client', 'read_only', 'super_read_only', 'innodb_read_only',
		'tx_read_only', 'transaction_read_only', 'lower_case_table_names', 'innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'binlog_format', 'completion_type')`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	v = make(map[string]string)
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		v[strings.ToLower(name)] = value
	}
	return v, rows.Err()
}

// judge says what must not be as it is.
func (s settings) judge(c Config) error {
	if s.readOnly {
		return &inbox.Error{Op: opOpen, Class: inbox.ClassDown, Err: errors.New("the server is read-only: point the connection at the primary")}
	}
	var errs []error
	if s.readOnlyTx {
		errs = append(errs, errors.New("the session's transactions are read-only (transaction_read_only): an inbox must write; leave it out of the data source name"))
	}
	switch s.clientCharset {
	case "utf8mb4", "utf8mb3", "utf8", "ascii", "latin1", "binary":
	default:
		errs = append(errs, errors.New("character_set_client is "+s.clientCharset+", in which part of a character may look like a quote: use charset=utf8mb4, or leave it out of the data source name"))
	}
	if s.completion != "NO_CHAIN" && s.completion != "0" {
		errs = append(errs, errors.New("completion_type is "+s.completion+", so COMMIT does more than it says: leave it at NO_CHAIN"))
	}
	if s.logBin && s.binlogFormat == "STATEMENT" {
		errs = append(errs, errors.New("binlog_format is STATEMENT, which refuses writes at READ COMMITTED: SET GLOBAL binlog_format = 'ROW'"))
	}
	if !c.AllowLossOnCrash {
		const orAllow = ", or set AllowLossOnCrash"
		if s.flushLog != "1" && s.flushLog != "3" {
			errs = append(errs, errors.New("innodb_flush_log_at_trx_commit is "+s.flushLog+", so a crash may undo commits whose messages are acknowledged: SET GLOBAL innodb_flush_log_at_trx_commit = 1"+orAllow))
		}
		if s.logBin && s.syncBinlog != "1" {
			errs = append(errs, errors.New("sync_binlog is "+s.syncBinlog+" and log_bin is on, so a crash may undo commits whose messages are acknowledged: SET GLOBAL sync_binlog = 1"+orAllow))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return inbox.ConfigError(opOpen, errors.Join(errs...))
}
