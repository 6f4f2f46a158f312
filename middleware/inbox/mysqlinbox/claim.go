package mysqlinbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

const (
	hold    = "SAVEPOINT " + sqlstore.Savepoint
	release = "RELEASE SAVEPOINT " + sqlstore.Savepoint
)

// rounds of inserts of one claim. Another transaction may commit one of the
// claims after the first round and a purge delete it after the second.
const rounds = 3

// claim inserts those of cs that are not there, and holds the transaction.
//
// Each round is one plain INSERT. That it failed with "duplicate entry" means
// that one of its keys is there, and nothing else: INSERT IGNORE would also say
// nothing about a key that was cut or a foreign key, and the row count of ON
// DUPLICATE KEY UPDATE depends on clientFoundRows. The server undoes the whole
// statement and keeps the transaction.
func (s *store) claim(ctx context.Context, tx *sql.Tx, t sqlstore.Table, cs []inbox.Claim, wait time.Duration) ([]sqlstore.Inserted, error) {
	rest := slices.CompactFunc(slices.Clone(cs), func(a, b inbox.Claim) bool { return a.Consumer == b.Consumer && a.Key == b.Key })
	for range rounds {
		if len(rest) == 0 {
			return nil, exec(ctx, tx, hold)
		}
		if err := s.fits(t, rest); err != nil {
			return nil, err
		}
		at, err := s.insert(ctx, tx, t, rest, wait)
		if err == nil {
			inserted := make([]sqlstore.Inserted, len(rest))
			for i, c := range rest {
				inserted[i] = sqlstore.Inserted{Consumer: c.Consumer, Key: c.Key, ProcessedAt: at}
			}
			return inserted, nil
		}
		if number(err) != duplicateEntry {
			return nil, err
		}
		if len(cs) == 1 {
			return nil, exec(ctx, tx, hold)
		}
		if rest, err = s.missing(ctx, tx, t, rest); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: others kept inserting claims of this group", inbox.ErrBusy)
}

// insert runs one INSERT and sets the savepoint; in one trip on MariaDB.
func (s *store) insert(ctx context.Context, tx *sql.Tx, t sqlstore.Table, cs []inbox.Claim, wait time.Duration) (at time.Time, err error) {
	secs := seconds(wait)
	if s.mariaDB {
		n := strconv.Itoa(secs)
		return s.insertReturning(ctx, tx, "BEGIN NOT ATOMIC SET STATEMENT innodb_lock_wait_timeout = "+n+", lock_wait_timeout = "+n+
			" FOR "+s.insertion(t, cs, "")+" RETURNING "+s.micros("processed_at")+"; "+hold+"; END")
	}
	ictx := ctx
	if secs < s.sessionWait {
		// The wait of a group. It costs the connection, but no trips.
		var cancel context.CancelFunc
		ictx, cancel = context.WithTimeout(ctx, max(wait, time.Second))
		defer cancel()
	}
	// The server's clock comes back as the "last insert id" of the answer.
	res, err := tx.ExecContext(ictx, s.insertion(t, cs, "LAST_INSERT_ID("+now+")"))
	switch {
	case err == nil:
	case ictx.Err() != nil && ctx.Err() == nil:
		return at, fmt.Errorf("%w: %w", inbox.ErrBusy, err)
	default:
		return at, err
	}
	if id, err := res.LastInsertId(); err == nil && id > 0 {
		at = time.UnixMicro(id)
	}
	return at, exec(ctx, tx, hold)
}

func (s *store) insertReturning(ctx context.Context, tx *sql.Tx, query string) (at time.Time, err error) {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return at, err
	}
	// Closing reads the answer to the savepoint.
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return at, err
		}
		at = time.UnixMicro(n)
	}
	return at, rows.Err()
}

// missing returns those of cs that are not in the table, in order.
func (s *store) missing(ctx context.Context, tx *sql.Tx, t sqlstore.Table, cs []inbox.Claim) (_ []inbox.Claim, err error) {
	rows, err := tx.QueryContext(ctx, s.lookup(nil, t, cs))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	there := make([]bool, len(cs))
	for rows.Next() {
		var n int
		var found bool
		var rest [4]any
		if err := rows.Scan(&n, &found, &rest[0], &rest[1], &rest[2], &rest[3]); err != nil {
			return nil, err
		}
		there[n] = found
	}
	var out []inbox.Claim
	for i, c := range cs {
		if !there[i] {
			out = append(out, c)
		}
	}
	return out, rows.Err()
}

// fits: without strict mode the server would cut a fingerprint in silence.
func (s *store) fits(t sqlstore.Table, cs []inbox.Claim) error {
	for _, c := range cs {
		if t.Fingerprint && len(c.Fingerprint) > s.columns.fingerprint {
			return inbox.Permanent(fmt.Errorf("claim %s: fingerprint of %d bytes, the column holds %d", c, len(c.Fingerprint), s.columns.fingerprint))
		}
	}
	return nil
}

// prove: the savepoint is gone with the transaction in which it was set, by
// COMMIT, ROLLBACK, DDL or a deadlock, and is not there in the next one.
func prove(ctx context.Context, tx *sql.Tx) error {
	err := exec(ctx, tx, release)
	if number(err) == noSuchSavepoint {
		return fmt.Errorf("%w: %w", inbox.ErrEnded, err)
	}
	return err
}

func exec(ctx context.Context, tx *sql.Tx, query string) error {
	_, err := tx.ExecContext(ctx, query)
	return err
}
