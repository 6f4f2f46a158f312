package mysqlinbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/mysqlinbox"
)

// What a message costs, counted on the wire.
func TestRoundTrips(t *testing.T) {
	direct := testservices.NewMariaDBDatabase(t)
	if err := mysqlinbox.Migrate(t.Context(), openDB(t, direct), mysqlinbox.Config{}); err != nil {
		t.Fatal(err)
	}
	none := func(context.Context) error { return nil }
	one := func(ctx context.Context) error {
		tx, err := inbox.Tx(ctx)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "SELECT 1")
		return err
	}
	failing := func(context.Context) error { return errors.New("no") }
	for _, c := range []struct {
		variant                            variant
		processed, duplicate, failed, read int
	}{
		// START TRANSACTION, claim with savepoint, release, COMMIT; a duplicate needs
		// the savepoint and the look by themselves; a failure is ROLLBACK at once.
		{variant{name: "own", own: true}, 4, 5, 3, 4},
		// Without the statements that only MariaDB has: the savepoint by itself.
		{variant{name: "own-plain", own: true, plain: true}, 5, 5, 4, 4},
		// The session is set before and restored after.
		{variant{name: "shared"}, 6, 7, 5, 1},
		{variant{name: "shared-plain", plain: true}, 7, 7, 6, 1},
	} {
		t.Run(c.variant.name, func(t *testing.T) {
			proxy, proxied := proxyTo(t, direct)
			box, db := c.variant.open(t, proxied, mysqlinbox.Config{})
			db.SetMaxOpenConns(1)
			if err := box.Register(t.Context(), inbox.Consumer{Name: c.variant.name}); err != nil {
				t.Fatal(err)
			}
			trips := func(what string, want int, fn func()) {
				t.Helper()
				before := proxy.Trips()
				fn()
				if got := proxy.Trips() - before; got != want {
					t.Errorf("%s: %d round trips, want %d", what, got, want)
				}
			}
			do := func(key string, fn func(context.Context) error) func() {
				return func() { _, _ = box.Do(t.Context(), inbox.Claim{Consumer: c.variant.name, Key: key}, fn) }
			}
			trips("processed", c.processed, do("a", none))
			trips("processed with one statement of the handler", c.processed+1, do("b", one))
			trips("duplicate", c.duplicate, do("a", none))
			trips("failed", c.failed, do("c", failing))
			trips("look-up", c.read, func() { _, _ = box.Lookup(t.Context(), inbox.Claim{Consumer: "c", Key: "k"}) })
		})
	}
}
