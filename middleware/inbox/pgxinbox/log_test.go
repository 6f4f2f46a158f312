package pgxinbox_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pgxinbox"
)

// However a handler fails, and goes on after it failed, the server is never asked
// anything in an aborted transaction.
func TestServerLogStaysQuiet(t *testing.T) {
	testservices.Postgres(t) // the same condition: a server of this test's own
	server := testservices.Start(t, "postgres")
	for _, mode := range modes {
		b := benchOn(t, server.NewDatabase(), mode)
		for name, way := range ways {
			for _, then := range ways {
				b.swallowed(name, func(ctx context.Context, tx pgx.Tx) {
					_ = way(ctx, tx, bad)
					_ = then(ctx, tx, "SELECT 1")
				})
			}
			if out, err := b.do(name, func(ctx context.Context, tx pgx.Tx) error { return way(ctx, tx, bad) }); out != inbox.Failed {
				t.Errorf("%s: %s, %v", name, out, err)
			}
			if out, err := b.do(name, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Conn().Exec(ctx, bad)
				return err
			}); out != inbox.Failed {
				t.Errorf("%s: %s, %v", name, out, err)
			}
		}
		held := make(chan struct{})
		release := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			_, err := b.do("held", func(context.Context, pgx.Tx) error {
				close(held)
				<-release
				return nil
			})
			done <- err
		}()
		<-held
		short := openOn(t, connect(t, b.url, mode, 1), pgxinbox.Config{Config: inbox.Config{LockWait: 1}})
		if err := short.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
			t.Fatal(err)
		}
		if out, err := short.Do(t.Context(), inbox.Claim{Consumer: "c", Key: "held"}, func(context.Context) error { return nil }); out != inbox.Later {
			t.Errorf("held: %s, %v", out, err)
		}
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	quiet(t, server, "violates check constraint")
}
