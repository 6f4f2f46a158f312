package pgxinbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/postgres"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// Split implements inbox.Store.
func (s *store) Split(ctx context.Context, split []inbox.Claim, drop []inbox.Record) error {
	if len(split) == 0 && len(drop) == 0 {
		return nil
	}
	// Sent and read at once; Close tells the first error.
	err := s.write(ctx, func(batch *pgx.Batch) {
		if len(drop) > 0 {
			b := postgres.Parameters()
			batch.Queue(sqlstore.DeleteInserted(b, s.table, drop, postgres.Micros), b.Args...)
		}
		if marks := sqlstore.Marked(s.table, split, drop); len(marks) > 0 {
			b := postgres.Parameters()
			batch.Queue(postgres.Split(b, s.table, marks, inbox.SplitMark()), b.Args...)
		}
	}, func(pgx.BatchResults) error { return nil })
	if err != nil {
		return sqlstore.Because(ctx, fmt.Errorf("mark claim split: %w", err))
	}
	if len(split) > 0 && !s.table.Fingerprint {
		return inbox.Configf("mark claim split", "table %s has no fingerprint column to mark it in: add the column, see pgxinbox.Schema", s.table.Claims)
	}
	return nil
}

// Register implements inbox.Store.
func (s *store) Register(ctx context.Context, c inbox.Consumer) (row inbox.Consumer, err error) {
	former, err := sqlstore.FormerNames(c)
	if err != nil {
		return row, err
	}
	insert, look := postgres.Parameters(), postgres.Parameters()
	register, consumer := postgres.Register(insert, s.table, c, former), postgres.Keeping().Consumers(look, s.table, c.Name)
	err = s.write(ctx, func(batch *pgx.Batch) {
		batch.Queue(register, insert.Args...)
		batch.Queue(consumer, look.Args...)
	}, func(br pgx.BatchResults) (err error) {
		if _, err := br.Exec(); err != nil {
			return fmt.Errorf("insert the consumer's row: %w", err)
		}
		row, err = s.readConsumer(br)
		return err
	})
	switch {
	case err != nil:
		return inbox.Consumer{}, sqlstore.Because(ctx, err)
	case row.Name == "":
		return row, errors.New("the consumer's row is gone right after it was written")
	}
	return row, nil
}

// Consumer implements inbox.Store.
func (s *store) Consumer(ctx context.Context, name string) (c inbox.Consumer, ok bool, err error) {
	b := postgres.Parameters()
	query := postgres.Keeping().Consumers(b, s.table, name)
	tx, err := s.begin(ctx, pgx.ReadCommitted, func(batch *pgx.Batch) { batch.Queue(query, b.Args...) }, func(br pgx.BatchResults) (err error) {
		c, err = s.readConsumer(br)
		return err
	})
	if err != nil {
		return inbox.Consumer{}, false, sqlstore.Because(ctx, err)
	}
	tx.undo()
	return c, c.Name != "", nil
}

// readConsumer returns no name when there is no such row.
func (s *store) readConsumer(br pgx.BatchResults) (c inbox.Consumer, err error) {
	rows, err := br.Query()
	if err == nil {
		defer rows.Close()
		c, _, err = sqlstore.ReadConsumer(rows, s.table)
	}
	if err != nil {
		return inbox.Consumer{}, fmt.Errorf("read the consumer's row: %w", err)
	}
	return c, nil
}

// write runs statements in a transaction of their own and commits.
func (s *store) write(ctx context.Context, queue func(*pgx.Batch), read func(pgx.BatchResults) error) error {
	tx, err := s.begin(ctx, pgx.ReadCommitted, queue, read)
	if err != nil {
		return err
	}
	defer tx.undo()
	return tx.Commit(ctx)
}
