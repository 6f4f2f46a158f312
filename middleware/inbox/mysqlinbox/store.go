package mysqlinbox

import (
	"context"
	"database/sql"
	"strconv"
	"strings"

	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// store is what the dialect needs to know of one server and one table.
type store struct {
	settings
	columns columns
	// set and restore make a session of the pool the claim's, and undo that. Empty
	// when there is nothing to set.
	set, restore string
	// sessionWait is the innodb_lock_wait_timeout that the claim's session has.
	sessionWait int
}

func newStore(s settings, cols columns, c Config) *store {
	st := &store{settings: s, columns: cols, sessionWait: s.lockWait}
	if c.Begin != nil {
		return st // the session is the user's
	}
	var set, restore []string
	change := func(variable, from, to string) {
		if from != to {
			set = append(set, "SESSION "+variable+" = "+to)
			restore = append(restore, "SESSION "+variable+" = "+from)
		}
	}
	if s.autocommit {
		change("autocommit", "1", "0")
	}
	isolation, _ := c.isolation() // Open has refused what is none
	change(s.isolationVariable, "'"+s.isolation+"'", "'"+isolation+"'")
	if !s.mariaDB {
		// MariaDB bounds the claim's own statement.
		st.sessionWait = max(1, c.lockWait())
		change("innodb_lock_wait_timeout", strconv.Itoa(s.lockWait), strconv.Itoa(st.sessionWait))
	}
	if len(set) > 0 {
		st.set, st.restore = "SET "+strings.Join(set, ", "), "SET "+strings.Join(restore, ", ")
	}
	return st
}

func (s *store) dialect() *sqlstore.Dialect {
	d := &sqlstore.Dialect{
		Grammar: grammar,
		Bind:    bind,

		Claim:     s.claim,
		Lookup:    s.lookup,
		Split:     split,
		Register:  register,
		Duplicate: func(err error) bool { return number(err) == duplicateEntry },
		Keeping:   s.keeping(),

		Renew:       hold,
		Lock:        s.lock,
		NoSavepoint: func(err error) bool { return number(err) == noSuchSavepoint },
		Prove:       prove,
		OneResult:   true,
		ReadTx:      !s.autocommit,
		Autocommits: true,

		Class:       class,
		Busy:        func(err error) bool { return number(err) == lockWaitTimeout },
		Dooms:       s.dooms,
		Aborted:     s.gone,
		Gone:        s.gone,
		Uncommitted: uncommitted,
	}
	if s.set != "" {
		d.Pin = s.pin
	}
	return d
}

// pin prepares a connection. Without autocommit nothing that follows a
// transaction which the server gave up can stay.
func (s *store) pin(ctx context.Context, c *sql.Conn) (_ sqlstore.Pinned, err error) {
	if _, err := c.ExecContext(ctx, s.set); err != nil {
		return sqlstore.Pinned{}, err
	}
	return sqlstore.Pinned{Restore: func(ctx context.Context) error {
		_, err := c.ExecContext(ctx, s.restore)
		return err
	}}, nil
}

// errorsOnly is for errors of Open and Migrate.
var errorsOnly = &sqlstore.Dialect{Class: class}
