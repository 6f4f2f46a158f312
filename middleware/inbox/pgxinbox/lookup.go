package pgxinbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/postgres"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// Lookup implements inbox.Store.
func (s *store) Lookup(ctx context.Context, cs []inbox.Claim) (recs []inbox.Record, err error) {
	// In a transaction, for poolers that change the server between statements.
	tx, err := s.begin(ctx, pgx.ReadCommitted, func(batch *pgx.Batch) { s.ask(batch, cs) }, func(br pgx.BatchResults) (err error) {
		recs, err = answers(br, cs)
		return err
	})
	if err != nil {
		return nil, sqlstore.Because(ctx, fmt.Errorf("look up claims: %w", err))
	}
	tx.undo()
	return recs, nil
}

// lookup within an open transaction.
func (s *store) lookup(ctx context.Context, tx pgx.Tx, cs []inbox.Claim) ([]inbox.Record, error) {
	var batch pgx.Batch
	s.ask(&batch, cs)
	br := tx.SendBatch(ctx, &batch)
	recs, err := answers(br, cs)
	return recs, errors.Join(err, br.Close())
}

// ask queues the statements of a look-up.
func (s *store) ask(batch *pgx.Batch, cs []inbox.Claim) {
	for part := range slices.Chunk(cs, sqlstore.LookupStep) {
		b := postgres.Parameters()
		batch.Queue(postgres.Lookup(b, s.table, part), b.Args...)
	}
}

// answers reads their results.
func answers(br pgx.BatchResults, cs []inbox.Claim) ([]inbox.Record, error) {
	recs := make([]inbox.Record, 0, len(cs))
	for part := range slices.Chunk(cs, sqlstore.LookupStep) {
		rows, err := br.Query()
		if err != nil {
			return nil, err
		}
		found, err := sqlstore.ReadRecords(rows, part)
		rows.Close()
		if err != nil {
			return nil, err
		}
		recs = append(recs, found...)
	}
	return recs, nil
}
