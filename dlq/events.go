package dlq

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
)

// eventsAtOnce bounds the rows of one INSERT: SQLite and PostgreSQL bind at most
// some ten thousand values.
const eventsAtOnce = 400

// log adds to the history of letters, in the transaction that changes them.
func (l *Letters) log(ctx context.Context, q querier, events ...Event) error {
	for part := range slices.Chunk(events, eventsAtOnce) {
		s := l.d.stmt("INSERT INTO sekali_dead_letter_events (letter_id, at, what, state, run_id, n, who, why, note) VALUES ")
		for i, e := range part {
			if i > 0 {
				s.add(", ")
			}
			s.add("(").addArg(e.Letter).add(", ", l.d.now)
			for _, v := range []any{e.What, string(e.State), e.Run, int64(e.N), clean(e.Who, maxText), clean(e.Why, maxText), clean(e.Text, maxText)} {
				s.add(", ").addArg(v)
			}
			s.add(")")
		}
		if err := s.exec(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// logAll adds the same line to the history of each letter that is in its state.
func (l *Letters) logAll(ctx context.Context, q querier, ids []int64, e Event) error {
	s := l.d.stmt("INSERT INTO sekali_dead_letter_events (letter_id, at, what, state, run_id, n, who, why, note) SELECT id, ", l.d.now)
	for _, v := range []string{e.What, string(e.State), e.Run} {
		s.add(", ", l.d.asText(s.arg(v)))
	}
	s.add(", ", strconv.Itoa(e.N))
	for _, v := range []string{e.Who, e.Why, e.Text} {
		s.add(", ", l.d.asText(s.arg(clean(v, maxText))))
	}
	s.add(" FROM sekali_dead_letters WHERE id IN ")
	err := s.add(list(s, ids), " AND state = ", s.arg(string(e.State))).exec(ctx, q)
	return err
}

// asText tells PostgreSQL the type of a placeholder in a SELECT.
func (d *dialect) asText(mark string) string {
	if d.numbered {
		return mark + "::text"
	}
	return mark
}

// History returns what happened to a letter, oldest first. ErrNoLetter when
// there is none.
func (l *Letters) History(ctx context.Context, id int64) (events []Event, err error) {
	err = l.read(ctx, func(q querier) error {
		events = nil
		return l.d.stmt("SELECT letter_id, ", l.d.readTime("at"), ", what, state, run_id, n, who, why, note FROM sekali_dead_letter_events WHERE letter_id = ").
			addArg(id).add(" ORDER BY id").each(ctx, q, func(scan func(...any) error) error {
			var e Event
			var at sql.NullInt64
			if err := scan(&e.Letter, &at, &e.What, &e.State, &e.Run, &e.N, &e.Who, &e.Why, &e.Text); err != nil {
				return err
			}
			e.At = timeOf(at)
			events = append(events, e)
			return nil
		})
	})
	if err == nil && len(events) == 0 {
		err = ErrNoLetter
	}
	return events, failed("read the history of letter", id, err)
}
