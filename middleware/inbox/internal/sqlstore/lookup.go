package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// querier is a *sql.DB or *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// lookupStep is how many claims one statement looks up: the arguments of a
// statement are limited everywhere.
const lookupStep = 500

// Lookup implements inbox.Store.
func (s *Store) Lookup(ctx context.Context, cs []inbox.Claim) (recs []inbox.Record, err error) {
	err = s.read(ctx, func(q querier) error {
		recs, err = s.lookup(ctx, q, cs)
		return err
	})
	if err != nil {
		return nil, because(ctx, fmt.Errorf("look up claims: %w", err))
	}
	return recs, nil
}

func (s *Store) lookup(ctx context.Context, q querier, cs []inbox.Claim) ([]inbox.Record, error) {
	recs := make([]inbox.Record, 0, len(cs))
	for part := range slices.Chunk(cs, lookupStep) {
		found, err := s.lookupPart(ctx, q, part)
		if err != nil {
			return nil, err
		}
		recs = append(recs, found...)
	}
	return recs, nil
}

func (s *Store) lookupPart(ctx context.Context, q querier, cs []inbox.Claim) (_ []inbox.Record, err error) {
	b := s.d.Bind()
	query := s.d.Lookup(b, s.o.Table, cs)
	rows, err := q.QueryContext(ctx, query, b.Args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	recs := make([]inbox.Record, len(cs))
	seen := 0
	for rows.Next() {
		var n, found int
		var fp []byte
		var at, age, horizon sql.NullInt64
		if err := rows.Scan(&n, &found, &fp, &at, &age, &horizon); err != nil {
			return nil, err
		}
		if n < 0 || n >= len(cs) {
			return nil, fmt.Errorf("row for claim %d of %d", n, len(cs))
		}
		seen++
		recs[n] = inbox.Record{Claim: cs[n], Found: found != 0, Horizon: micros(horizon)}
		if recs[n].Found {
			recs[n].Fingerprint = fp
			recs[n].ProcessedAt = micros(at)
			recs[n].Age = max(0, time.Duration(age.Int64)*time.Microsecond)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if seen != len(cs) {
		return nil, fmt.Errorf("%d rows for %d claims", seen, len(cs))
	}
	return recs, nil
}

// read runs fn on the pool, or in a transaction where connections do not
// autocommit.
func (s *Store) read(ctx context.Context, fn func(querier) error) error {
	if !s.d.ReadTx {
		return fn(s.db)
	}
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	return fn(tx)
}
