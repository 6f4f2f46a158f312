package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Split implements inbox.Store.
func (s *Store) Split(ctx context.Context, cs []inbox.Claim) error {
	if len(cs) == 0 {
		return nil
	}
	if !s.o.Table.Fingerprint {
		return inbox.Configf("mark claim split", "table %s has no fingerprint column to mark it in: add the column, see the Schema func of this store", s.o.Table.Claims)
	}
	err := s.write(ctx, func(tx *sql.Tx) error {
		b := s.d.Bind()
		_, err := tx.ExecContext(ctx, s.d.Split(b, s.o.Table, cs, inbox.SplitMark()), b.Args...)
		return err
	})
	if err != nil {
		return Because(ctx, fmt.Errorf("mark claim split: %w", err))
	}
	return nil
}

// Register implements inbox.Store.
func (s *Store) Register(ctx context.Context, c inbox.Consumer) (row inbox.Consumer, err error) {
	former, err := FormerNames(c)
	if err != nil {
		return row, err
	}
	insert := func(tx *sql.Tx) error {
		b := s.d.Bind()
		_, err := tx.ExecContext(ctx, s.d.Register(b, s.o.Table, c, former), b.Args...)
		return err
	}
	err = s.write(ctx, insert)
	if err != nil && (s.d.Duplicate == nil || !s.d.Duplicate(err)) {
		return row, Because(ctx, fmt.Errorf("insert the consumer's row: %w", err))
	}
	row, ok, err := s.Consumer(ctx, c.Name)
	if err == nil && !ok {
		err = errors.New("the consumer's row is gone right after it was written")
	}
	return row, err
}
