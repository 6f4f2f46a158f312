package dlq

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Note says who did something on purpose, and why. Named acts require both.
type Note = inbox.Note

// Order in which letters are listed.
type Order uint8

const (
	// OldestFirst is by rising id. The default.
	OldestFirst Order = iota
	// NewestFirst is by falling id.
	NewestFirst
)

const (
	// pageSize of what is read at once.
	pageSize = 500
	// listDefault is the limit of List without one.
	listDefault = 100
)

// failed names the operation of an error.
func failed(op string, id any, err error) error {
	if err == nil {
		return nil
	}
	if id == nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return fmt.Errorf("%s %v: %w", op, id, err)
}

// Each yields the letters that f chooses, with neither headers nor body. It reads
// them page by page: memory stays flat however many there are, and letters that
// come meanwhile may be among them. It ends after the first error.
func (l *Letters) Each(ctx context.Context, f Filter, o Order) iter.Seq2[*Letter, error] {
	return func(yield func(*Letter, error) bool) {
		for r, err := range l.rows(ctx, f, o, 0, f.part()) {
			if err != nil {
				yield(nil, failed("list letters", nil, err))
				return
			}
			r.Message = nil
			if !yield(&r.Letter, nil) {
				return
			}
		}
	}
}

// List returns at most Filter.Limit letters (0: 100) that come after the letter
// of that id in the order; 0 begins at its end.
func (l *Letters) List(ctx context.Context, f Filter, o Order, after int64) (letters []*Letter, err error) {
	if f.Limit == 0 {
		f.Limit = listDefault
	}
	for r, err := range l.rows(ctx, f, o, after, f.part()) {
		if err != nil {
			return nil, failed("list letters", nil, err)
		}
		r.Message = nil
		letters = append(letters, &r.Letter)
	}
	return letters, nil
}

// rows yields what f chooses, page by page.
func (l *Letters) rows(ctx context.Context, f Filter, o Order, after int64, p part) iter.Seq2[*row, error] {
	return func(yield func(*row, error) bool) {
		if err := f.check(); err != nil {
			yield(nil, err)
			return
		}
		left := f.Limit
		for {
			page, err := l.page(ctx, f, o, after, p)
			if err != nil {
				yield(nil, err)
				return
			}
			if len(page) == 0 {
				return
			}
			after = page[len(page)-1].ID
			full := len(page) == pageSize
			if page, err = l.matching(ctx, f, page); err != nil {
				yield(nil, err)
				return
			}
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			if !full {
				return
			}
		}
	}
}

func (l *Letters) page(ctx context.Context, f Filter, o Order, after int64, p part) (page []*row, err error) {
	s := f.where(l.d.selectRows(p))
	switch {
	case o == NewestFirst && after > 0:
		s.add(" AND id < ").addArg(after)
	case o == OldestFirst:
		s.add(" AND id > ").addArg(after)
	}
	s.add(" ORDER BY id")
	if o == NewestFirst {
		s.add(" DESC")
	}
	s.add(fmt.Sprintf(" LIMIT %d", pageSize))
	err = l.read(ctx, func(q querier) (err error) {
		page, err = s.rows(ctx, q, p)
		return err
	})
	return page, err
}

// rows runs a statement of selectRows.
func (s *stmt) rows(ctx context.Context, q querier, p part) (rows []*row, err error) {
	err = s.each(ctx, q, func(scan func(...any) error) error {
		r, err := scanRow(scan, p)
		if err != nil {
			return err
		}
		if p >= withEnvelope {
			if err := r.open(); err != nil {
				return fmt.Errorf("letter %d: %w", r.ID, err)
			}
		}
		rows = append(rows, r)
		return nil
	})
	return rows, err
}

// matching keeps the rows that the database could not choose.
func (l *Letters) matching(ctx context.Context, f Filter, page []*row) ([]*row, error) {
	page = slices.DeleteFunc(page, func(r *row) bool { return !f.match(r) })
	if len(f.Verdicts) == 0 || len(page) == 0 {
		return page, nil
	}
	js, err := l.judge(ctx, page)
	if err != nil {
		return nil, err
	}
	kept := page[:0]
	for i, r := range page {
		if slices.Contains(f.Verdicts, js[i].Verdict) {
			kept = append(kept, r)
		}
	}
	return kept, nil
}

// Get returns one letter with its message. ErrNoLetter when there is none.
func (l *Letters) Get(ctx context.Context, id int64) (*Letter, error) {
	var rows []*row
	err := l.read(ctx, func(q querier) (err error) {
		rows, err = l.d.selectRows(withBody).add(" WHERE id = ").addArg(id).rows(ctx, q, withBody)
		return err
	})
	if err == nil && len(rows) == 0 {
		err = ErrNoLetter
	}
	if err != nil {
		return nil, failed("get letter", id, err)
	}
	return &rows[0].Letter, nil
}

// Count counts the letters that f chooses.
func (l *Letters) Count(ctx context.Context, f Filter) (n int64, err error) {
	const op = "count letters"
	if err := f.check(); err != nil {
		return 0, failed(op, nil, err)
	}
	if f.part() != plainRow {
		for _, err := range l.rows(ctx, f, OldestFirst, 0, f.part()) {
			if err != nil {
				return 0, failed(op, nil, err)
			}
			n++
		}
		return n, nil
	}
	err = l.read(ctx, func(q querier) error {
		return f.where(l.d.stmt("SELECT count(*) FROM sekali_dead_letters")).one(ctx, q, &n)
	})
	if f.Limit > 0 {
		n = min(n, int64(f.Limit))
	}
	return n, failed(op, nil, err)
}

var errKinds = errors.New("kinds are counted by the database: it knows neither Headers nor Verdicts, and takes no Limit")
