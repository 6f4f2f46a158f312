package dlq

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

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
	// AllowLossOnCrash accepts settings of the database under which the last
	// commits may be gone after a crash, although their letters are no longer in
	// the dead letter queue. For tests. Defaults to false: Open refuses them.
	AllowLossOnCrash bool
	// Logger takes what an operator should know. Defaults to nil: silent.
	Logger *slog.Logger
}

const defaultBirthSkew = 5 * time.Minute

func (c Config) withDefaults() (Config, error) {
	var errs []error
	for name, b := range c.Inboxes {
		if b == nil {
			errs = append(errs, fmt.Errorf("Inboxes[%q] is nil: open it first", name))
		}
	}
	if c.BirthSkew < 0 {
		errs = append(errs, fmt.Errorf("BirthSkew is %s: must not be negative", c.BirthSkew))
	}
	if c.BirthSkew == 0 {
		c.BirthSkew = defaultBirthSkew
	}
	if c.RetryQueue == nil {
		c.RetryQueue = func(queue string) bool { return strings.Contains(queue, ".retry.") }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Inboxes = maps.Clone(c.Inboxes)
	return c, errors.Join(errs...)
}

// Letters is the table of dead letters. Safe for concurrent use, also by several
// processes.
type Letters struct {
	db     *sql.DB
	d      *dialect
	config Config
	// turn is held by the one write transaction of a database that has only one.
	turn chan struct{}
	// durably is run in each write transaction where the server's default would
	// lose it in a crash.
	durably  string
	registry registry
}

const opOpen = "open dlq"

// Open returns the letters in db, which is PostgreSQL, MySQL, MariaDB or SQLite:
// the server is asked which. It checks the tables and the settings of a
// connection, and creates nothing, see Migrate. ctx bounds the check only. The
// caller keeps db and closes it.
func Open(ctx context.Context, db *sql.DB, c Config) (*Letters, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, inbox.ConfigError(opOpen, err)
	}
	d, err := find(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", opOpen, err)
	}
	l := &Letters{db: db, d: d, config: c, turn: make(chan struct{}, 1)}
	if err := l.check(ctx); err != nil {
		return nil, err
	}
	l.registry.inboxes = c.Inboxes
	return l, nil
}
