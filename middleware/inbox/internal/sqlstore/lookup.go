package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// querier is a *sql.DB or *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// LookupStep is how many claims one statement looks up: the arguments of a
// statement are limited everywhere.
const LookupStep = 500

// Lookup implements inbox.Store.
func (s *Store) Lookup(ctx context.Context, cs []inbox.Claim) (recs []inbox.Record, err error) {
	err = s.read(ctx, func(q querier) error {
		recs, err = s.lookup(ctx, q, cs)
		return err
	})
	if err != nil {
		return nil, Because(ctx, fmt.Errorf("look up claims: %w", err))
	}
	return recs, nil
}

func (s *Store) lookup(ctx context.Context, q querier, cs []inbox.Claim) ([]inbox.Record, error) {
	recs := make([]inbox.Record, 0, len(cs))
	for part := range slices.Chunk(cs, LookupStep) {
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
	return ReadRecords(rows, cs)
}
