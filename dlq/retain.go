package dlq

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sekali-mq/sekali/internal/backoff"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// RetainConfig says how long things are kept. The zero value works.
type RetainConfig struct {
	// Claims are kept this long, and longer where an open letter needs them.
	// Defaults to 30 days.
	Claims time.Duration
	// Letters that are resolved or discarded are kept this long after that.
	// Defaults to 30 days.
	Letters time.Duration
	// Every is the pause between two rounds. Defaults to 1 h.
	Every time.Duration
	// Uncollected tells how many dead letters of a consumer's queue are not
	// collected yet: while there are any, its claims are kept, since nobody knows
	// which ones they need. Defaults to nil: there are none.
	Uncollected func(ctx context.Context, c inbox.Consumer) (int64, error)
	// Anyway purges claims that open or uncollected letters need. Defaults to
	// false.
	Anyway bool
	// Report sees each round. Defaults to nil: rounds are only logged.
	Report func(Retained)
}

const retention = 30 * 24 * time.Hour

func (c RetainConfig) withDefaults() (RetainConfig, error) {
	c.Claims = cmp.Or(c.Claims, retention)
	c.Letters = cmp.Or(c.Letters, retention)
	c.Every = cmp.Or(c.Every, time.Hour)
	if c.Claims < 0 || c.Letters < 0 || c.Every < 0 {
		return c, fmt.Errorf("Claims is %s, Letters %s, Every %s: must not be negative", c.Claims, c.Letters, c.Every)
	}
	return c, nil
}

// Retained is what one round removed and kept.
type Retained struct {
	// Claims removed, by inbox and consumer.
	Claims map[string]map[string]int64
	// Kept for letters: sentences that name the consumer and the reason.
	Kept []string
	// Letters removed.
	Letters int64
	// Err of the round; the next one tries again.
	Err error
}

// Retain removes old claims of all consumers of the inboxes, and old letters,
// until ctx ends. A claim that an open letter needs stays. Sent letters whose claims
// prove that they took effect are resolved first. Several processes may
// run it.
func (l *Letters) Retain(ctx context.Context, c RetainConfig) error {
	c, err := c.withDefaults()
	if err != nil {
		return failed("retain", nil, err)
	}
	for {
		r, err := l.RetainOnce(ctx, c)
		if r.Err = err; err != nil && ctx.Err() == nil {
			l.config.Logger.Error("retention round failed, the next one tries again", "err", err)
		}
		for _, kept := range r.Kept {
			l.config.Logger.Warn("claims are kept: " + kept)
		}
		if c.Report != nil {
			c.Report(r)
		}
		if backoff.Sleep(ctx, c.Every) != nil {
			return nil //nolint:nilerr // the end of ctx is how it ends
		}
	}
}

// RetainOnce is one round of Retain. What failed at one consumer does not keep it
// from the others.
func (l *Letters) RetainOnce(ctx context.Context, c RetainConfig) (r Retained, err error) {
	const op = "retain"
	if c, err = c.withDefaults(); err != nil {
		return r, failed(op, nil, err)
	}
	r.Claims = make(map[string]map[string]int64)
	rows, err := l.registry.all(ctx)
	if err != nil {
		return r, failed(op, nil, err)
	}
	var errs []error
	if err := l.resolveProven(ctx); err != nil {
		errs = append(errs, fmt.Errorf("look what became of sent letters: %w", err))
	}
	for _, consumer := range rows {
		if err := l.purge(ctx, c, consumer, &r); err != nil {
			errs = append(errs, fmt.Errorf("consumer %q of inbox %q: %w", consumer.Name, consumer.at, err))
		}
	}
	r.Letters, err = l.removeOld(ctx, c.Letters)
	return r, failed(op, nil, errors.Join(append(errs, err)...))
}

// purge removes the old claims of one consumer, but for those that letters need.
func (l *Letters) purge(ctx context.Context, c RetainConfig, consumer registered, r *Retained) error {
	says := func(format string, args ...any) {
		r.Kept = append(r.Kept, fmt.Sprintf("consumer %q of inbox %q: ", consumer.Name, consumer.at)+fmt.Sprintf(format, args...))
	}
	o := inbox.PurgeOptions{Keep: c.Claims}
	if !c.Anyway {
		if c.Uncollected != nil {
			n, err := c.Uncollected(ctx, consumer.Consumer)
			if err != nil {
				return fmt.Errorf("count uncollected letters: %w", err)
			}
			if n > 0 {
				says("all, since %d dead letters are not collected and nobody knows which claims they need", n)
				return nil
			}
		}
		if consumer.key == nil {
			keyless, err := l.keyless(ctx, consumer)
			if err != nil {
				return err
			}
			if keyless {
				says("all, since there are open letters whose keys only its service can compute")
				return nil
			}
		}
		o.Hold = l.Needs(consumer.Consumer)
	}
	p, err := consumer.box.Purge(ctx, consumer.Name, o)
	if p.Kept+p.Splits > 0 {
		says("%d old ones, since open letters need them, and %d marked split", p.Kept, p.Splits)
	}
	if p.Deleted > 0 {
		if r.Claims[consumer.at] == nil {
			r.Claims[consumer.at] = make(map[string]int64)
		}
		r.Claims[consumer.at][consumer.Name] = p.Deleted
	}
	return err
}

// open are the states of letters that may still need a claim.
var open = []State{Waiting, Sending, Sent, Parked}

// keyless tells whether there are open letters of a consumer without a key.
func (l *Letters) keyless(ctx context.Context, consumer registered) (bool, error) {
	var one int64
	err := l.read(ctx, func(q querier) error {
		s := l.d.stmt("SELECT id FROM sekali_dead_letters WHERE message_key = '' AND consumer_name IN ")
		s.add(list(s, append([]string{consumer.Name}, consumer.FormerNames...)), " AND state IN ", list(s, stateTexts(open)), " LIMIT 1")
		return s.one(ctx, q, &one)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return one != 0, err
}

// Needs tells which claims of a consumer must stay, since open letters need them:
// for inbox.PurgeOptions.Hold. It asks anew at each step of a purge.
func (l *Letters) Needs(c inbox.Consumer) func(ctx context.Context, cs []inbox.Claim) (stay []bool, err error) {
	return func(ctx context.Context, cs []inbox.Claim) ([]bool, error) { return l.needed(ctx, c, cs) }
}

// needed tells which claims open letters of a consumer need.
func (l *Letters) needed(ctx context.Context, consumer inbox.Consumer, cs []inbox.Claim) ([]bool, error) {
	keys := make([]string, len(cs))
	for i, c := range cs {
		keys[i] = c.Key
	}
	needs := make(map[string]bool)
	err := l.read(ctx, func(q querier) error {
		s := l.d.stmt("SELECT message_key, sent_key FROM sekali_dead_letters WHERE consumer_name IN ")
		s.add(list(s, append([]string{consumer.Name}, consumer.FormerNames...)), " AND state IN ", list(s, stateTexts(open)))
		s.add(" AND (sent_key <> ").addArg("").add(" OR message_key IN ", list(s, keys), ")")
		return s.each(ctx, q, func(scan func(...any) error) error {
			var key, sent string
			if err := scan(&key, &sent); err != nil {
				return err
			}
			needs[key] = true
			if sent != "" {
				needs[inbox.StoredKey(sent)] = true
			}
			return nil
		})
	})
	stay := make([]bool, len(cs))
	for i, key := range keys {
		stay[i] = needs[key]
	}
	return stay, err
}

// removeOld removes letters that are resolved or discarded, with their history.
func (l *Letters) removeOld(ctx context.Context, keep time.Duration) (removed int64, err error) {
	for {
		var n int64
		err := l.write(ctx, func(q querier) error {
			var ids []int64
			s := l.d.stmt("SELECT id FROM sekali_dead_letters WHERE state IN ('resolved', 'discarded') AND changed_at < ")
			// Locked: one that waits again meanwhile keeps its history.
			s.add(l.d.ago(s, keep), fmt.Sprintf(" ORDER BY id LIMIT %d", pageSize), l.d.forUpdate)
			err := s.each(ctx, q, func(scan func(...any) error) error {
				var id int64
				err := scan(&id)
				ids = append(ids, id)
				return err
			})
			if n = int64(len(ids)); err != nil || n == 0 {
				return err
			}
			s = l.d.stmt("DELETE FROM sekali_dead_letter_events WHERE letter_id IN ")
			if err := s.add(list(s, ids)).exec(ctx, q); err != nil {
				return err
			}
			s = l.d.stmt("DELETE FROM sekali_dead_letters WHERE state IN ('resolved', 'discarded') AND id IN ")
			err = s.add(list(s, ids)).exec(ctx, q)
			return err
		})
		removed += n
		if err != nil || n < pageSize {
			return removed, err
		}
	}
}
