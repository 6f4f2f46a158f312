package pgxinbox_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pgxinbox"
)

// A connection on which nothing can be written, as to a server that was demoted
// in a failover, is not used again: the next one may lead to the new primary.
func TestReadOnlyConnectionIsGivenUp(t *testing.T) {
	pool := connect(t, testservices.NewPostgresDatabase(t), pgx.QueryExecModeCacheStatement, 1)
	migrate(t, pool, pgxinbox.Config{})
	box := openOn(t, pool, pgxinbox.Config{})
	if err := box.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	if out, err := box.Do(t.Context(), inbox.Claim{Consumer: "c", Key: "a"}, func(ctx context.Context) error {
		tx, err := pgxinbox.Tx(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
		return err
	}); out != inbox.Processed {
		t.Fatalf("%s, %v", out, err)
	}
	c := inbox.Claim{Consumer: "c", Key: "b"}
	if out, err := box.Do(t.Context(), c, none); out != inbox.Failed || inbox.ClassOf(err) != inbox.ClassDown {
		t.Errorf("on the read-only connection: %s, class %s: %v", out, inbox.ClassOf(err), err)
	}
	if out, err := box.Do(t.Context(), c, none); out != inbox.Processed {
		t.Errorf("afterwards: %s, %v", out, err)
	}
}
