package sqliteinbox

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// Config of an inbox in SQLite. The zero value works.
type Config struct {
	inbox.Config

	// Table that holds the claims. The registry, sekali_consumers, lies beside it.
	// Defaults to "processed_messages".
	Table string
	// AllowLossOnPowerFailure accepts settings under which the last commits may be
	// gone after a power failure, although their messages were acknowledged:
	// synchronous below FULL, journal_mode DELETE with less than EXTRA, MEMORY or
	// OFF, and databases in memory. For tests and for data that can be made again.
	// Defaults to false: Open refuses them.
	AllowLossOnPowerFailure bool
}

// DSN returns a data source name for a file with settings that Open accepts:
// WAL, a sync at every commit, 10 s of waiting for other processes, foreign keys
// enforced.
func DSN(path string) string {
	q := url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"}}
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}).String()
}

const opOpen = "open sqliteinbox"

// Open returns an inbox on db, after a check of the settings of a fresh
// connection and of the live table. It creates nothing, see Migrate. A table
// without the column fingerprint is taken as it is; what it cannot do is said in
// the log. ctx bounds the check only. The caller keeps db and closes it.
func Open(ctx context.Context, db *sql.DB, c Config) (*inbox.Inbox, error) {
	t, err := c.table()
	if err != nil {
		return nil, inbox.ConfigError(opOpen, err)
	}
	var file string
	err = patiently(ctx, func() (err error) {
		file, err = check(ctx, db, &t, c)
		return err
	})
	if err != nil {
		return nil, sqlstore.OpenError(opOpen, dialect(nil), err)
	}
	store := sqlstore.New(db, dialect(queueOf(file)), sqlstore.Options{Table: t, Logger: c.Logger})
	return inbox.New(store, c.Config)
}

// table reads the name of the claims table.
func (c Config) table() (sqlstore.Table, error) {
	if strings.Contains(c.Table, ".") {
		return sqlstore.Table{}, errors.New("Table: an attached database belongs to one connection of the pool only; give a name without a dot")
	}
	return sqlstore.ParseTable(c.Table, sqlstore.QuoteDouble)
}

// Start-up is tried again while another process has the file: a new file is
// converted to WAL by its first connection, and SQLite does not wait for that,
// whatever busy_timeout says.
const (
	startPatience = 10 * time.Second
	startPause    = 10 * time.Millisecond
)

func patiently(ctx context.Context, fn func() error) error {
	end := time.Now().Add(startPatience)
	for {
		err := fn()
		if !busy(err) || time.Now().After(end) {
			return err
		}
		timer := time.NewTimer(startPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}
