package dlq

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

var errUnbuilt = errors.New("not built yet")

// Config of the letters. The zero value works: every letter is then kept, and
// none is judged.
type Config struct {
	// Inboxes of the consumers, by the operator's name for each: they tell which
	// letters were processed. Defaults to none: every verdict is unknown.
	Inboxes map[string]*inbox.Inbox
	// BirthHeader names a header in which producers put the time of the event's
	// birth: RFC 3339, an AMQP timestamp, or Unix seconds. A letter born after the
	// horizon of its consumer, and not in the future, was never processed unless
	// there is a claim. Defaults to none.
	BirthHeader string
	// BirthSkew is by how much producers' clocks may be ahead of the consumers'
	// databases. Defaults to 5 min.
	BirthSkew time.Duration
	// RetryQueue tells retry queues by their names: a letter did not die in them.
	// Defaults to names with ".retry." inside.
	RetryQueue func(queue string) bool
	// Logger takes what an operator should know. Defaults to nil: silent.
	Logger *slog.Logger
}

// Letters is the table of dead letters. Safe for concurrent use, also by several
// processes.
type Letters struct{}

// Migrate makes the tables that Open needs, or what is missing of them. What it
// did is kept in the table sekali_migrations. Safe to call from several processes
// at once and at every start.
func Migrate(ctx context.Context, db *sql.DB) error { return errUnbuilt }

// Schema returns the statements that make the tables, fit to paste into any
// migration tool. The dialect is "postgres", "mysql" (also for MariaDB) or
// "sqlite".
func Schema(dialect string) (string, error) { return "", errUnbuilt }

// Open returns the letters in db, which is PostgreSQL, MySQL, MariaDB or SQLite:
// the server is asked which. It checks the tables and the settings of a
// connection, and creates nothing, see Migrate. ctx bounds the check only. The
// caller keeps db and closes it.
func Open(ctx context.Context, db *sql.DB, c Config) (*Letters, error) { return nil, errUnbuilt }
