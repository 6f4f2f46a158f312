package dlq

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Plan tells what Redrive would do now. It changes nothing, neither here nor on
// the broker.
func (l *Letters) Plan(ctx context.Context, c RedriveConfig) (p Plan, err error) {
	const op = "plan redrive"
	if c.Note == (Note{}) {
		c.Note = Note{Who: op, Why: op} // nothing is done
	}
	if c, err = c.withDefaults(); err != nil {
		return p, failed(op, nil, err)
	}
	p = Plan{Counts: Counts{Stayed: map[Verdict]int64{}}, Queues: map[string]int64{}, Kinds: map[string]int64{}, Why: map[string]int64{}}
	f := c.Filter
	f.States = f.redriven()
	works := make(map[string]work)
	var page []*row
	flush := func() error {
		err := l.planPage(ctx, c, page, &p, works)
		page = page[:0]
		return err
	}
	for r, err := range l.rows(ctx, f, OldestFirst, 0, withEnvelope) {
		if err != nil {
			return p, failed(op, nil, err)
		}
		if page = append(page, r); len(page) == pageSize {
			if err := flush(); err != nil {
				return p, failed(op, nil, err)
			}
		}
	}
	return p, failed(op, nil, flush())
}

// reasonOf is what letters that stay for one reason have in common: its text
// without keys, numbers and times.
func reasonOf(why, key string) string {
	return strings.ReplaceAll(shape(why, key), maskedTime, "...")
}

func (l *Letters) planPage(ctx context.Context, c RedriveConfig, page []*row, p *Plan, works map[string]work) error {
	js, err := l.judge(ctx, page)
	if err != nil {
		return err
	}
	for i, r := range page {
		d := c.decide(r, js[i], "plan")
		p.add(d)
		if d.step != send {
			if d.step != resolve {
				p.Why[reasonOf(d.why, r.Key)]++
			}
			continue
		}
		p.Sent++
		p.Queues[r.Queue]++
		p.Kinds[r.Kind]++
		at := js[i].Inbox + "\x00" + r.Consumer
		w, ok := works[at]
		if !ok {
			if w, err = l.lastWork(ctx, js[i].Inbox, r.Consumer); err != nil {
				return err
			}
			works[at] = w
		}
		switch {
		case !w.known:
			p.OrderUnknown++
		case w.done && r.age(w) > w.age:
			p.Older++
		}
	}
	return nil
}

// work is how long ago a consumer last did something, by its database's clock.
type work struct {
	known, done bool
	age         time.Duration
	now         time.Time
}

// age of a letter: since its last attempt, by the same clock, or since it was
// collected, by the letters' own.
func (r *row) age(w work) time.Duration {
	if !r.ClaimedAt.IsZero() {
		return w.now.Sub(r.ClaimedAt)
	}
	return r.Age
}

func (l *Letters) lastWork(ctx context.Context, at, consumer string) (w work, err error) {
	b := l.config.Inboxes[at]
	if b == nil || consumer == "" {
		return w, nil
	}
	s, err := b.Stats(ctx, consumer)
	if err != nil {
		return w, fmt.Errorf("inbox %q: %w", at, err)
	}
	return work{known: true, done: s.Claims > 0, age: s.Now.Sub(s.Newest), now: s.Now}, nil
}
