package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Split implements inbox.Store.
func (s *Store) Split(ctx context.Context, split []inbox.Claim, drop []inbox.Record) error {
	if len(split) == 0 && len(drop) == 0 {
		return nil
	}
	err := s.write(ctx, func(tx *sql.Tx) error {
		if len(drop) > 0 {
			if _, err := s.exec(ctx, tx, func(b *Binder) string { return DeleteInserted(b, s.o.Table, drop, s.d.Keeping.ProcessedAt) }); err != nil {
				return err
			}
		}
		marks := Marked(s.o.Table, split, drop)
		if len(marks) == 0 {
			return nil
		}
		_, err := s.exec(ctx, tx, func(b *Binder) string { return s.d.Split(b, s.o.Table, marks, inbox.SplitMark()) })
		return err
	})
	if err != nil {
		return Because(ctx, fmt.Errorf("mark claim split: %w", err))
	}
	if len(split) > 0 && !s.o.Table.Fingerprint {
		return inbox.Configf("mark claim split", "table %s has no fingerprint column to mark it in: add the column, see the Schema func of this store", s.o.Table.Claims)
	}
	return nil
}

// Marked are the claims that Split marks, as far as the table can bear marks: those
// to drop, too, where they turn out not to be the insertion that was meant.
func Marked(t Table, split []inbox.Claim, drop []inbox.Record) []inbox.Claim {
	if !t.Fingerprint {
		return nil
	}
	marks := slices.Clone(split)
	for _, r := range drop {
		marks = append(marks, r.Claim)
	}
	return marks
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
