package dlq

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// store keeps a letter: back to the row it was redriven from, merged into a
// waiting row of the same claim, or as a new row. All of it, or nothing.
func (l *Letters) store(ctx context.Context, d *death) error {
	return l.write(ctx, func(q querier) error {
		copyOf := int64(0)
		if d.redrive > 0 {
			back, late, err := l.back(ctx, q, d)
			if back || err != nil {
				return err
			}
			copyOf = late
		}
		id := identity(d.Queue, d.Consumer, d.Key, d.Fingerprint)
		if id != "" && copyOf == 0 {
			waiting, err := l.lockWaiting(ctx, q, id)
			if err != nil {
				return err
			}
			if waiting != 0 {
				return l.seen(ctx, q, waiting, d)
			}
		}
		if id == "" && copyOf == 0 {
			err := l.d.stmt("SELECT MIN(id) FROM sekali_dead_letters WHERE content = ").addArg(d.content).add(" HAVING MIN(id) IS NOT NULL").one(ctx, q, &copyOf)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		letter, err := l.insert(ctx, q, d, copyOf)
		if err != nil {
			return err
		}
		what, note := "collected", d.Error
		if copyOf != 0 {
			what, note = "copy", fmt.Sprintf("has no key and the content of letter %d: it may be a second delivery of it", copyOf)
		}
		return l.log(ctx, q, Event{Letter: letter, What: what, State: Waiting, Text: note})
	})
}

func (s *stmt) addArg(v any) *stmt { return s.add(s.arg(v)) }

// lockWaiting returns the waiting row of an identity, locked; 0 for none.
func (l *Letters) lockWaiting(ctx context.Context, q querier, identity string) (id int64, err error) {
	err = l.d.stmt("SELECT id FROM sekali_dead_letters WHERE identity = ").addArg(identity).add(l.d.forUpdate).one(ctx, q, &id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return id, err
}

// seen merges a copy into a waiting row. The newest claim time proves most.
func (l *Letters) seen(ctx context.Context, q querier, id int64, d *death) error {
	s := l.d.stmt("UPDATE sekali_dead_letters SET seen = seen + 1")
	if !d.ClaimedAt.IsZero() {
		at := s.time(d.ClaimedAt)
		s.add(", claimed_at = CASE WHEN claimed_at IS NULL OR claimed_at < ", at, " THEN ", s.time(d.ClaimedAt), " ELSE claimed_at END")
	}
	if err := s.add(" WHERE id = ").addArg(id).exec(ctx, q); err != nil {
		return err
	}
	return l.log(ctx, q, Event{Letter: id, What: "seen", State: Waiting, Text: d.Error})
}

// insert makes a new waiting row.
func (l *Letters) insert(ctx context.Context, q querier, d *death, copyOf int64) (int64, error) {
	var token [6]byte
	_, _ = rand.Read(token[:]) // never fails
	var id any
	switch i := identity(d.Queue, d.Consumer, d.Key, d.Fingerprint); {
	case copyOf != 0:
	case i != "":
		id = i
	case d.content != "":
		// Unique, too: of two deliveries at the same time one finds the other.
		id = "content:" + d.content[:56]
	}
	s := l.d.stmt("INSERT INTO sekali_dead_letters (state, identity, queue, source, consumer_name, message_key, no_key, fingerprint, guessed, body_print, " +
		"content, token, reason, error_text, kind, shape, attempts, first_failure, died_at, claimed_at, collected_at, changed_at, sent_key, copy_of, size, amqp, envelope, body) VALUES (")
	for _, v := range []any{
		string(Waiting), id, d.Queue, d.Source, d.Consumer, d.Key, d.NoKey, d.Fingerprint, flag(d.FingerprintGuessed), d.bodyPrint,
		d.content, hex.EncodeToString(token[:]), string(d.Reason), d.Error, d.Kind, d.Shape, d.Attempts,
	} {
		s.addArg(v).add(", ")
	}
	for _, t := range []time.Time{d.FirstFailure, d.DiedAt, d.ClaimedAt} {
		s.add(s.time(t), ", ")
	}
	s.add(l.d.now, ", ", l.d.now)
	body := d.envelope.Body
	if body == nil {
		body = []byte{}
	}
	for _, v := range []any{"", copyOf, d.Size, flag(d.envelope.AMQP), d.encoded, body} {
		s.add(", ").addArg(v)
	}
	return s.add(")").insert(ctx, q)
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// back honours the number of a redrive: false when the letter is not the one that
// was sent, or a handler copied its headers to an event of its own. late is the row
// when it is an older redrive's than the last one, and nobody would recognise a
// second copy.
func (l *Letters) back(ctx context.Context, q querier, d *death) (ok bool, late int64, err error) {
	var r *row
	err = l.d.selectRows(plainRow).add(" WHERE id = ").addArg(d.redrive).add(l.d.forUpdate).each(ctx, q, func(scan func(...any) error) (err error) {
		r, err = scanRow(scan, plainRow)
		return err
	})
	if err != nil || r == nil || !r.sentAs(d) {
		return false, 0, err
	}
	if r.once && d.n < r.sendN {
		return false, r.ID, nil
	}
	redrives := max(int64(r.Redrives), d.n)
	id := identity(d.Queue, d.Consumer, d.Key, d.Fingerprint)
	if r.State == Waiting {
		// A second copy of it: the run sent it twice.
		s := l.d.stmt("UPDATE sekali_dead_letters SET seen = seen + 1, redrives = ").addArg(redrives).add(" WHERE id = ").addArg(r.ID)
		if err := s.exec(ctx, q); err != nil {
			return false, 0, err
		}
		return true, 0, l.log(ctx, q, Event{Letter: r.ID, What: "seen", State: Waiting, Run: r.Run, N: int(d.n), Text: d.Error})
	}
	if id != "" {
		waiting, err := l.lockWaiting(ctx, q, id)
		if err != nil {
			return false, 0, err
		}
		if waiting != 0 && waiting != r.ID {
			if err := l.seen(ctx, q, waiting, d); err != nil {
				return false, 0, err
			}
			return true, 0, l.merge(ctx, q, r, waiting, redrives)
		}
	}
	return true, 0, l.wait(ctx, q, r, d, id, redrives)
}

// sentAs reports whether d is this row, as it was sent.
func (r *row) sentAs(d *death) bool {
	key := r.Key
	if r.sentKey != "" {
		key = inbox.StoredKey(r.sentKey)
	}
	if r.Queue != d.Queue || r.Consumer != d.Consumer {
		return false
	}
	if key != d.Key {
		return false
	}
	if r.FingerprintGuessed != d.FingerprintGuessed {
		return bytes.Equal(r.bodyPrint, d.bodyPrint)
	}
	return bytes.Equal(r.Fingerprint, d.Fingerprint)
}

// merge resolves a row that came back while another one of its claim waits.
func (l *Letters) merge(ctx context.Context, q querier, r *row, into, redrives int64) error {
	if err := l.mergeInto(ctx, q, r.ID, into); err != nil {
		return err
	}
	if err := l.d.stmt("UPDATE sekali_dead_letters SET redrives = ").addArg(redrives).add(" WHERE id = ").addArg(r.ID).exec(ctx, q); err != nil {
		return err
	}
	return l.log(ctx, q, Event{Letter: r.ID, What: "merged", State: Resolved, Run: r.Run, Text: fmt.Sprintf("letter %d of the same claim waits", into)})
}

// wait sets a row back that came back, whatever its state, with what it died of
// this time.
func (l *Letters) wait(ctx context.Context, q querier, r *row, d *death, id string, redrives int64) error {
	s := l.d.stmt("UPDATE sekali_dead_letters SET state = ").addArg(string(Waiting))
	if id != "" {
		s.add(", identity = ").addArg(id)
	}
	for _, v := range []struct {
		column string
		value  any
	}{
		{"message_key", d.Key}, {"no_key", d.NoKey}, {"fingerprint", d.Fingerprint},
		{"guessed", flag(d.FingerprintGuessed)}, {"reason", string(d.Reason)}, {"error_text", d.Error}, {"kind", d.Kind},
		{"shape", d.Shape}, {"attempts", d.Attempts}, {"redrives", redrives}, {"size", d.Size}, {"envelope", d.encoded}, {"merged_into", int64(0)},
	} {
		s.add(", ", v.column, " = ").addArg(v.value)
	}
	s.add(", seen = seen + 1, first_failure = ", s.time(d.FirstFailure), ", died_at = ", s.time(d.DiedAt))
	if !d.ClaimedAt.IsZero() || r.Key != d.Key {
		s.add(", claimed_at = ", s.time(d.ClaimedAt))
	}
	s.add(", changed_at = ", l.d.now, " WHERE id = ").addArg(r.ID)
	if err := s.exec(ctx, q); err != nil {
		return err
	}
	return l.log(ctx, q, Event{Letter: r.ID, What: "back", State: Waiting, Run: r.Run, N: int(d.n), Text: d.Error})
}
