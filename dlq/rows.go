package dlq

import (
	"database/sql"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// letterColumns are the columns that a Letter is read from, in order.
const letterColumns = "id, state, queue, source, consumer_name, message_key, no_key, fingerprint, guessed, reason, error_text, kind, shape, attempts, " +
	"first_failure, died_at, claimed_at, collected_at, changed_at, seen, redrives, run_id, copy_of, merged_into, size, " + innerColumns

// innerColumns are those that only this package wants to know.
const innerColumns = "identity, content, token, body_print, spared, send_n, sent_key, once, amqp"

// row is a letter with what only this package wants to know.
type row struct {
	Letter
	token     string
	bodyPrint []byte
	spared    int64
	sendN     int64
	// sentKey is the key that it was sent with in letter.HeaderKey; "" for none.
	sentKey string
	once    bool
	amqp    bool
	// now is the database's clock when it was read.
	now time.Time
	// envelope and body, where they were asked for.
	envelope, body []byte
}

// what of a row is read.
type part uint8

const (
	plainRow part = iota
	// withEnvelope reads headers and properties.
	withEnvelope
	// withBody reads all.
	withBody
)

// selectRows begins a SELECT of letters.
func (d *dialect) selectRows(p part) *stmt {
	t := d.readTime
	s := d.stmt("SELECT id, state, queue, source, consumer_name, message_key, no_key, fingerprint, guessed, reason, error_text, kind, shape, attempts, ",
		t("first_failure"), ", ", t("died_at"), ", ", t("claimed_at"), ", ", t("collected_at"), ", ", t("changed_at"), ", ", t(d.now),
		", seen, redrives, run_id, copy_of, merged_into, size, token, body_print, spared, send_n, sent_key, once, amqp")
	if p >= withEnvelope {
		s.add(", envelope")
	}
	if p >= withBody {
		s.add(", body")
	}
	return s.add(" FROM sekali_dead_letters")
}

func scanRow(scan func(...any) error, p part) (*row, error) {
	var r row
	var first, died, claimed, collected, changed, now sql.NullInt64
	var guessed, once, amqp int64
	into := []any{
		&r.ID, &r.State, &r.Queue, &r.Source, &r.Consumer, &r.Key, &r.NoKey, &r.Fingerprint, &guessed, &r.Reason, &r.Error, &r.Kind, &r.Shape, &r.Attempts,
		&first, &died, &claimed, &collected, &changed, &now,
		&r.Seen, &r.Redrives, &r.Run, &r.CopyOf, &r.MergedInto, &r.Size, &r.token, &r.bodyPrint, &r.spared, &r.sendN, &r.sentKey, &once, &amqp,
	}
	if p >= withEnvelope {
		into = append(into, &r.envelope)
	}
	if p >= withBody {
		into = append(into, &r.body)
	}
	if err := scan(into...); err != nil {
		return nil, err
	}
	r.FingerprintGuessed, r.once, r.amqp = guessed != 0, once != 0, amqp != 0
	r.FirstFailure, r.DiedAt, r.ClaimedAt = timeOf(first), timeOf(died), timeOf(claimed)
	r.CollectedAt, r.ChangedAt, r.now = timeOf(collected), timeOf(changed), timeOf(now)
	r.Age = max(0, r.now.Sub(r.CollectedAt))
	return &r, nil
}

// open reads the message of a row that was read with it.
func (r *row) open() error {
	e, err := decodeEnvelope(r.envelope)
	if err != nil {
		return err
	}
	e.Body = r.body
	r.Message = &e.Message
	return nil
}

// claimKey is the key under which its claim is, or would be.
func (r *row) claimKey() string {
	if r.sentKey != "" && (r.State == Sending || r.State == Sent) {
		return inbox.StoredKey(r.sentKey)
	}
	return r.Key
}
