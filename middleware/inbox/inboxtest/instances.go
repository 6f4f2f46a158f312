package inboxtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Groups of two instances that write the same rows in opposite orders deadlock. From
// then on they take turns, also the one that was not the victim: it learns of it from
// the other one's lock.
func instancesTakeTurns(h *test) {
	const rounds, meeting = 3, 500 * time.Millisecond
	row := func(i int) string { return fmt.Sprintf("row-%d", i%2) }
	for i := range 2 {
		if err := h.db.Outside(h.ctx, h.insert(row(i))); err != nil {
			h.Fatal(err)
		}
	}
	add := func(ctx context.Context, i int) error {
		return h.db.Exec(ctx, fmt.Sprintf("UPDATE inboxtest_effects SET amount = amount + 1 WHERE name = '%s'", h.effect(row(i))))
	}
	began := time.Now().Truncate(time.Minute)
	var runs atomic.Int64 // of first members
	instances := []*gathering{h.gathering(inbox.Config{}), h.gathering(inbox.Config{})}
	for round := range rounds {
		var inside sync.WaitGroup // one of each instance
		inside.Add(len(instances))
		both := make(chan struct{})
		go func() { inside.Wait(); close(both) }()
		var over sync.WaitGroup
		for i, g := range instances {
			over.Go(func() {
				arrive := sync.OnceFunc(inside.Done)
				defer arrive()
				keys := []string{fmt.Sprintf("%d-%d-first", round, i), fmt.Sprintf("%d-%d-second", round, i)}
				handler := func(key string) func(context.Context) error {
					return func(ctx context.Context) error {
						if key != keys[0] {
							return add(ctx, i+1)
						}
						runs.Add(1)
						if err := add(ctx, i); err != nil {
							return err
						}
						arrive()
						select { // the other one does not come where they take turns
						case <-both:
						case <-time.After(meeting):
						}
						return nil
					}
				}
				for key, r := range g.run(keys, handler) {
					for inbox.ClassOf(r.err) == inbox.ClassTransient && h.ctx.Err() == nil { // as callers do
						r.out, r.err = g.box.Do(h.ctx, h.claim(key), handler(key))
					}
					if r.out != inbox.Processed {
						h.Errorf("%s: %s, %v", key, r.out, r.err)
					}
				}
			})
		}
		over.Wait()
	}
	got, err := h.db.Count(h.ctx, fmt.Sprintf("SELECT sum(amount) FROM inboxtest_effects WHERE name IN ('%s', '%s')", h.effect(row(0)), h.effect(row(1))))
	if want := 2 + 4*rounds; err != nil || got != want {
		h.Errorf("the rows have %d, want %d, %v", got, want, err)
	}
	// Each minute they may meet anew.
	undone, periods := int(runs.Load())-2*rounds, 1+int(time.Since(began)/time.Minute)
	if most := periods * h.s.c.Deadlocks; most > 0 && undone > most {
		h.Errorf("%d groups were undone, want at most %d", undone, most)
	}
}
