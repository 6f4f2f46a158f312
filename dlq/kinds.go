package dlq

import (
	"context"
	"database/sql"
	"time"
)

// Kind is a group of letters that died alike.
type Kind struct {
	// ID for Filter.Kind.
	ID string
	// Queue they died in.
	Queue string
	// Reason in one word.
	Reason Reason
	// Shape of their error: digits and ids masked.
	Shape string
	// Count of letters.
	Count int64
	// Oldest and Newest by collection.
	Oldest, Newest time.Time
	// Example is the newest letter.
	Example int64
}

// Kinds groups the letters that f chooses, largest group first. Headers, Verdicts
// and Limit of f are refused.
func (l *Letters) Kinds(ctx context.Context, f Filter) (kinds []Kind, err error) {
	const op = "group letters"
	if err := f.check(); err != nil {
		return nil, failed(op, nil, err)
	}
	if f.part() != plainRow || f.Limit > 0 {
		return nil, failed(op, nil, errKinds)
	}
	t := l.d.readTime
	s := f.where(l.d.stmt("SELECT kind, MIN(queue), MIN(reason), MIN(shape), count(*), ", t("MIN(collected_at)"), ", ", t("MAX(collected_at)"), ", MAX(id) FROM sekali_dead_letters"))
	s.add(" GROUP BY kind ORDER BY count(*) DESC, kind")
	err = l.read(ctx, func(q querier) error {
		kinds = nil
		return s.each(ctx, q, func(scan func(...any) error) error {
			var k Kind
			var oldest, newest sql.NullInt64
			if err := scan(&k.ID, &k.Queue, &k.Reason, &k.Shape, &k.Count, &oldest, &newest, &k.Example); err != nil {
				return err
			}
			k.Oldest, k.Newest = timeOf(oldest), timeOf(newest)
			kinds = append(kinds, k)
			return nil
		})
	})
	return kinds, failed(op, nil, err)
}
