package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Options are what a store's Open chose.
type Options struct {
	// Table as checked.
	Table Table
	// Isolation of the claim's transaction.
	Isolation sql.IsolationLevel
	// Begin begins the claim's transaction instead of the store. It must return a
	// transaction that ends with ctx. Defaults to nil.
	Begin func(ctx context.Context, db *sql.DB) (*sql.Tx, error)
	// Logger takes what an operator should know. Defaults to nil: silent.
	Logger *slog.Logger
}

// Store is an inbox.Store on database/sql. Safe for concurrent use.
type Store struct {
	db *sql.DB
	d  *Dialect
	o  Options

	churn churn
}

var _ inbox.Store = (*Store)(nil)

// New puts a dialect on a pool. The schema must have been checked.
func New(db *sql.DB, d *Dialect, o Options) *Store {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Store{db: db, d: d, o: o}
}

// Class implements inbox.Store.
func (s *Store) Class(err error) inbox.Class { return s.d.Class(err) }

// MaxOpen is how many transactions the pool can have open at a time; 0 when it
// is not limited.
func (s *Store) MaxOpen() int { return s.db.Stats().MaxOpenConnections }

// Begin implements inbox.Store.
func (s *Store) Begin(ctx context.Context, cs []inbox.Claim, o inbox.BeginOptions) (inbox.Session, []inbox.Record, error) {
	sess, err := s.open(ctx, o.LockWait)
	if err != nil {
		return nil, nil, err
	}
	recs, err := s.claim(ctx, sess, cs, o.LockWait)
	if err != nil {
		sess.drop()
		return nil, nil, err
	}
	return sess, recs, nil
}

// claim runs the claim statement and reads the rows that were there already.
func (s *Store) claim(ctx context.Context, sess *session, cs []inbox.Claim, wait time.Duration) ([]inbox.Record, error) {
	inKeyOrder := slices.SortedFunc(slices.Values(cs), func(a, b inbox.Claim) int {
		return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Key, b.Key))
	})
	claim := s.d.Claim
	if claim == nil {
		claim = s.insert
	}
	cctx := ctx
	if s.d.WaitByContext {
		var cancel context.CancelFunc
		cctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	rows, err := claim(cctx, sess.tx, s.o.Table, inKeyOrder, wait)
	if err != nil {
		if s.d.Busy(err) || cctx.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", inbox.ErrBusy, err)
		}
		return nil, because(ctx, err)
	}
	if s.d.Hold != "" {
		if _, err := sess.tx.ExecContext(ctx, s.d.Hold); err != nil {
			return nil, because(ctx, fmt.Errorf("hold the claim's transaction: %w", err))
		}
	}
	recs, err := s.records(ctx, sess.tx, cs, rows)
	for _, r := range recs {
		if r.New {
			sess.claims = append(sess.claims, r.Claim)
		}
	}
	return recs, err
}

// insert is the claim in one statement.
func (s *Store) insert(ctx context.Context, tx *sql.Tx, t Table, cs []inbox.Claim, wait time.Duration) (_ []Inserted, err error) {
	b := s.d.Bind()
	query := s.d.Insert(b, t, cs, wait)
	if query == "" {
		return nil, nil
	}
	rows, err := tx.QueryContext(ctx, query, b.Args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var out []Inserted
	for rows.Next() {
		var r Inserted
		var at sql.NullInt64
		if err := rows.Scan(&r.Consumer, &r.Key, &at); err != nil {
			return nil, err
		}
		r.ProcessedAt = micros(at)
		out = append(out, r)
	}
	return out, rows.Err()
}

// records puts what the claim statement inserted in the order of cs, and reads
// the rest.
func (s *Store) records(ctx context.Context, tx *sql.Tx, cs []inbox.Claim, rows []Inserted) ([]inbox.Record, error) {
	recs := make([]inbox.Record, len(cs))
	var old []inbox.Claim
	var at []int
	for i, c := range cs {
		recs[i].Claim = c
		n := slices.IndexFunc(rows, func(r Inserted) bool { return r.Consumer == c.Consumer && r.Key == c.Key })
		if n < 0 {
			old, at = append(old, c), append(at, i)
			continue
		}
		recs[i].New, recs[i].ProcessedAt = true, rows[n].ProcessedAt
		rows = slices.Delete(rows, n, n+1) // a second copy in cs is not new
	}
	if len(rows) > 0 {
		return nil, fmt.Errorf("claim statement returned a row that was not asked for: consumer %q, key %q", rows[0].Consumer, rows[0].Key)
	}
	if len(old) == 0 {
		return recs, nil
	}
	found, err := s.lookup(ctx, tx, old)
	if err != nil {
		return nil, because(ctx, fmt.Errorf("read the claims that exist: %w", err))
	}
	for i, r := range found {
		r.Horizon = time.Time{}
		recs[at[i]] = r
	}
	return recs, nil
}

// because puts the reason of an ended context before what a driver makes of it:
// some give a plain "query cancelled", or a broken connection.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

func micros(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMicro(n.Int64)
}
