package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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
	*Keeper

	db *sql.DB
	d  *Dialect
	o  Options

	churn churn
}

var (
	_ inbox.Store  = (*Store)(nil)
	_ inbox.Pooled = (*Store)(nil)

	_ inbox.Overlapping = (*Store)(nil)
)

// New puts a dialect on a pool. The schema must have been checked.
func New(db *sql.DB, d *Dialect, o Options) *Store {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	keeper := NewKeeper(func() (*sql.DB, func() error) { return db, func() error { return nil } }, d, o.Table)
	return &Store{Keeper: keeper, db: db, d: d, o: o}
}

// Class implements inbox.Store.
func (s *Store) Class(err error) inbox.Class { return s.d.Class(err) }

// Overlaps implements inbox.Overlapping. A snapshot that was taken before the commit
// would not have what the group before wrote.
func (s *Store) Overlaps() bool {
	return s.o.Isolation == sql.LevelReadCommitted && s.o.Begin == nil
}

// MaxOpen implements inbox.Pooled. Where transactions take turns in memory, who
// waits needs no connection, so the pool bounds nothing.
func (s *Store) MaxOpen() int {
	if s.d.Enter != nil {
		return 0
	}
	return s.db.Stats().MaxOpenConnections
}

// Begin implements inbox.Store.
func (s *Store) Begin(ctx context.Context, cs []inbox.Claim, o inbox.BeginOptions) (inbox.Session, []inbox.Record, error) {
	o.Wait = cmp.Or(o.Wait, o.LockWait)
	sess, err := s.open(ctx, o.Wait)
	if err != nil {
		return nil, nil, err
	}
	recs, err := s.claim(ctx, sess, cs, o)
	if err != nil {
		// A connection to a server that takes no writes any more would come back from
		// the pool for ever; another one may lead to the new primary.
		sess.spoilt = s.d.Class(err) == inbox.ClassDown
		sess.drop()
		return nil, nil, err
	}
	return sess, recs, nil
}

// claim runs the claim statement and reads the rows that were there already.
func (s *Store) claim(ctx context.Context, sess *session, cs []inbox.Claim, o inbox.BeginOptions) ([]inbox.Record, error) {
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
		cctx, cancel = context.WithTimeout(ctx, o.Wait)
		defer cancel()
	}
	var rows []Inserted
	var err error
	several := s.d.Several && s.d.Claim == nil
	if several {
		rows, err = s.atOnce(cctx, sess, inKeyOrder, o)
	} else if err = s.lock(ctx, sess, o); err == nil {
		rows, err = claim(cctx, sess.tx, s.o.Table, inKeyOrder, o.LockWait)
	}
	if err != nil {
		if s.d.Busy(err) || cctx.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", inbox.ErrBusy, err)
		}
		return nil, Because(ctx, err)
	}
	if s.d.Hold != "" {
		if _, err := sess.tx.ExecContext(ctx, s.d.Hold); err != nil {
			return nil, Because(ctx, fmt.Errorf("hold the claim's transaction: %w", err))
		}
	}
	if !several && s.limits(o) {
		b := s.d.Bind()
		if _, err := sess.tx.ExecContext(ctx, s.d.Limit(b, o.Wait), b.Args...); err != nil {
			return nil, Because(ctx, fmt.Errorf("bound the lock waits: %w", err))
		}
	}
	recs, err := Arrange(cs, rows, func(old []inbox.Claim) ([]inbox.Record, error) { return s.lookup(ctx, sess.tx, old) })
	for _, r := range recs {
		if r.New {
			sess.claims = append(sess.claims, r.Claim)
		}
	}
	if err != nil {
		return nil, Because(ctx, err)
	}
	return recs, nil
}

// limits tells whether the handlers' statements may wait longer than the claim.
func (s *Store) limits(o inbox.BeginOptions) bool { return s.d.Limit != nil && o.Wait != o.LockWait }

// locking is the statement that takes the lock of a group, "" for none.
func (s *Store) locking(b *Binder, o inbox.BeginOptions) string {
	if o.Lock == "" || s.d.Lock == nil {
		return ""
	}
	return s.d.Lock(b, s.o.Table, o.Lock, o.LockMode, o.Wait)
}

// lock takes the lock of a group.
func (s *Store) lock(ctx context.Context, sess *session, o inbox.BeginOptions) error {
	b := s.d.Bind()
	query := s.locking(b, o)
	if query == "" {
		return nil
	}
	rows, err := sess.tx.QueryContext(ctx, query, b.Args...)
	if err != nil {
		return fmt.Errorf("lock %q: %w", o.Lock, err)
	}
	sess.yielded, err = ReadLock(rows)
	if err = errors.Join(err, rows.Close()); err != nil {
		return fmt.Errorf("lock %q: %w", o.Lock, err)
	}
	return nil
}

// atOnce locks, claims and limits the lock waits of what follows, in one trip.
func (s *Store) atOnce(ctx context.Context, sess *session, cs []inbox.Claim, o inbox.BeginOptions) (inserted []Inserted, err error) {
	b := s.d.Bind()
	texts := []string{s.d.Insert(b, s.o.Table, cs, o.LockWait)}
	lock := s.locking(b, o)
	if lock != "" {
		texts = append([]string{lock}, texts...)
	}
	if s.limits(o) {
		texts = append(texts, s.d.Limit(b, o.Wait))
	}
	rows, err := sess.tx.QueryContext(ctx, strings.Join(texts, ";\n"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }() // reads what is left, too
	if lock != "" {
		if sess.yielded, err = ReadLock(rows); err != nil {
			return nil, fmt.Errorf("lock %q: %w", o.Lock, err)
		}
		rows.NextResultSet()
	}
	if inserted, err = ReadInserted(rows); err != nil {
		return nil, err
	}
	for rows.NextResultSet() {
		continue
	}
	return inserted, rows.Err()
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
	return ReadInserted(rows)
}

// Because puts the reason of an ended context before what a driver makes of it:
// some give a plain "query cancelled", or a broken connection.
func Because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
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
