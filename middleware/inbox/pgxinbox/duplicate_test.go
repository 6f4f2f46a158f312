package pgxinbox_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// The context of a duplicate ends while its row is read: its connection is nobody
// else's yet, and after that not its own any more.
func TestDuplicateWhoseContextEnds(t *testing.T) {
	b := newBench(t, modes[0])
	b.processed("old", func(context.Context, pgx.Tx) error { return nil })
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(200+rand.IntN(2000))*time.Microsecond)
				_, _ = b.box.Do(ctx, inbox.Claim{Consumer: "c", Key: "old"}, func(context.Context) error {
					t.Error("the handler was called")
					return nil
				})
				cancel()
			}
		})
	}
	wg.Wait()
	b.processed("new", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insert("new"))
		return err
	})
	b.effects("new", 1)
}
