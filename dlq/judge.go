package dlq

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Judge looks up what the inboxes can prove of letters, as of now: each is read
// again by its id. Judgements come in their order. ErrNoLetter when one is gone.
func (l *Letters) Judge(ctx context.Context, letters ...*Letter) ([]Judgement, error) {
	const op = "judge letters"
	p := plainRow
	if l.config.BirthHeader != "" {
		p = withEnvelope
	}
	var js []Judgement
	for part := range slices.Chunk(letters, pageSize) {
		rows, err := l.again(ctx, part, p)
		if err != nil {
			return nil, failed(op, nil, err)
		}
		some, err := l.judge(ctx, rows)
		if err != nil {
			return nil, failed(op, nil, err)
		}
		js = append(js, some...)
	}
	return js, nil
}

// again reads letters by their ids, in their order.
func (l *Letters) again(ctx context.Context, letters []*Letter, p part) ([]*row, error) {
	ids := make([]int64, len(letters))
	for i, le := range letters {
		ids[i] = le.ID
	}
	by := make(map[int64]*row, len(ids))
	err := l.read(ctx, func(q querier) error {
		s := l.d.selectRows(p).add(" WHERE id IN ")
		rows, err := s.add(list(s, ids)).rows(ctx, q, p)
		for _, r := range rows {
			by[r.ID] = r
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	rows := make([]*row, len(ids))
	for i, id := range ids {
		if rows[i] = by[id]; rows[i] == nil {
			return nil, fmt.Errorf("letter %d: %w", id, ErrNoLetter)
		}
	}
	return rows, nil
}

// asked is one question to an inbox.
type asked struct {
	box    *inbox.Inbox
	claims []inbox.Claim
	of     []int // index of the letter
}

// judge asks each inbox once for all of its letters.
func (l *Letters) judge(ctx context.Context, rows []*row) ([]Judgement, error) {
	js := make([]Judgement, len(rows))
	known, err := l.registry.all(ctx)
	if err != nil {
		return nil, err
	}
	now, err := l.clock(ctx)
	if err != nil {
		return nil, err
	}
	questions := make(map[string]*asked)
	for i, r := range rows {
		js[i].Verdict = Unknown
		c, err := findConsumer(known, r.Consumer, r.Queue, "", r.amqp)
		switch {
		case err != nil:
			js[i].Why = err.Error()
			continue
		case r.Consumer == "":
			js[i].Why = fmt.Sprintf("consumer %q was not registered when it was collected", c.Name)
			js[i].Inbox = c.at
			continue
		case r.claimKey() == "":
			js[i].Why, js[i].Inbox = "no key: "+r.NoKey, c.at
			continue
		}
		js[i].Inbox = c.at
		q := questions[c.at]
		if q == nil {
			q = &asked{box: c.box}
			questions[c.at] = q
		}
		q.claims = append(q.claims, inbox.Claim{Consumer: c.Name, Key: r.claimKey()})
		q.of = append(q.of, i)
	}
	for at, q := range questions {
		recs, err := q.box.LookupStored(ctx, q.claims...)
		if err != nil {
			return nil, fmt.Errorf("inbox %q: %w", at, err)
		}
		theirs, err := q.box.Clock(ctx)
		if err != nil {
			return nil, fmt.Errorf("inbox %q: %w", at, err)
		}
		for n, rec := range recs {
			r, j := rows[q.of[n]], &js[q.of[n]]
			if r.State == Sending && r.claimKey() != r.Key && !rec.Found && !rec.Horizon.IsZero() {
				if j.Verdict, j.Why, err = l.made(ctx, q.box, r, rec.Horizon); err != nil {
					return nil, fmt.Errorf("inbox %q: %w", at, err)
				}
				continue
			}
			j.Verdict, j.Compared, j.Why = l.verdict(r, rec, now, theirs)
		}
	}
	return js, nil
}

const (
	// Two clocks are compared by what has passed on each. The time between the two
	// looks is in it; it is measured again where that decides.
	clockTries = 5
	clockNear  = time.Second
)

// made judges a letter that a run left in sending, under a key that was made for
// it and has no claim: none was before that, and none is missing if the consumer's
// horizon is older than that. The two may be by different clocks.
func (l *Letters) made(ctx context.Context, box *inbox.Inbox, r *row, horizon time.Time) (v Verdict, why string, err error) {
	at := r.ChangedAt.Format(time.RFC3339)
	for range clockTries {
		theirs, err := box.Clock(ctx)
		if err != nil {
			return "", "", err
		}
		mine, err := l.clock(ctx)
		if err != nil {
			return "", "", err
		}
		earlier := theirs.Sub(horizon) - mine.Sub(r.ChangedAt)
		if earlier > 0 {
			return New, "no claim, and its key was made by the redrive that left it at " + at + ", after the horizon of its consumer", nil
		}
		if earlier < -clockNear {
			break
		}
	}
	return Unknown, "no claim, but the redrive that left it at " + at + " was before the horizon of its consumer, " + horizon.UTC().Format(time.RFC3339) + ": its claim may be purged", nil
}

// verdict on one letter, from claim and horizon, which were read together. now is
// by the letters' clock, theirs by the inbox's.
func (l *Letters) verdict(r *row, rec inbox.Record, now, theirs time.Time) (v Verdict, compared bool, why string) {
	if rec.Found {
		return claimed(r, rec)
	}
	if rec.Horizon.IsZero() {
		return Unknown, false, "its consumer is not registered any more"
	}
	horizon := "the horizon of its consumer, " + rec.Horizon.UTC().Format(time.RFC3339)
	// An attempt under another key proves nothing of this one.
	held := r.claimKey() == r.Key
	if held && r.ClaimedAt.After(theirs) {
		return Unknown, false, "no claim, and the attempt that its headers tell of was at " + r.ClaimedAt.Format(time.RFC3339) + ", which is in the future"
	}
	if held && r.ClaimedAt.After(rec.Horizon) {
		return New, false, "no claim, and an attempt held it at " + r.ClaimedAt.Format(time.RFC3339) + ", after " + horizon
	}
	if born, ok := l.birth(r); ok {
		switch {
		case born.After(now):
			return Unknown, false, "no claim, and its time of birth " + born.Format(time.RFC3339) + " is in the future"
		case born.Add(-l.config.BirthSkew).After(rec.Horizon):
			return New, false, "no claim, and it was born at " + born.Format(time.RFC3339) + ", after " + horizon
		default:
			return Unknown, false, "no claim, but it was born before " + horizon + ": its claim may be purged, or from before the inbox"
		}
	}
	if held && !r.ClaimedAt.IsZero() {
		return Unknown, false, "no claim, but its last attempt was before " + horizon + ": its claim may be purged"
	}
	return Unknown, false, "no claim, and no proof that there was none: no failed attempt held it, and no header tells the event's birth"
}

// claimed judges a letter whose claim is committed.
func claimed(r *row, rec inbox.Record) (v Verdict, compared bool, why string) {
	at := rec.ProcessedAt.UTC().Format(time.RFC3339)
	switch {
	case rec.Split():
		return Split, false, "its claim was committed at " + at + " apart from its writes: find out what was written, then forget the claim, or discard the letter"
	case len(rec.Fingerprint) == 0 || len(r.Fingerprint) == 0:
		return Processed, false, "processed at " + at + ", payload not compared: its claim has no fingerprint"
	case rec.Fingerprint[0] != r.Fingerprint[0]:
		return Processed, false, "processed at " + at + ", payload not compared: its claim's fingerprint is of another version"
	case bytes.Equal(rec.Fingerprint, r.Fingerprint):
		return Processed, true, "processed at " + at + " with the same content"
	case r.FingerprintGuessed:
		return Conflict, true, "its key was processed at " + at + " with another body, unless its consumer compares something else than bodies"
	}
	return Conflict, true, "its key was processed at " + at + " with other content: the producer used one key for two messages"
}

// birth reads the header that the operator declared.
func (l *Letters) birth(r *row) (time.Time, bool) {
	if l.config.BirthHeader == "" || r.Message == nil {
		return time.Time{}, false
	}
	v := r.Message.Headers[l.config.BirthHeader]
	if at, ok := v.(time.Time); ok {
		at = sane(at)
		return at, !at.IsZero()
	}
	text, _ := letter.Text(v)
	at := textTime(text)
	if at.IsZero() {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			at = sane(time.Unix(n, 0))
		}
	}
	return at, !at.IsZero()
}

// clock reads the database's clock.
func (l *Letters) clock(ctx context.Context) (now time.Time, err error) {
	var micros int64
	err = l.read(ctx, func(q querier) error {
		return l.d.stmt("SELECT ", l.d.readTime(l.d.now)).one(ctx, q, &micros)
	})
	return time.UnixMicro(micros).UTC(), err
}
