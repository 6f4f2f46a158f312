package mysqlinbox_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/mysqlinbox"
)

type tenantKey struct{}

// A transaction that the user begins for the tenant that comes with Do's context.
func TestBeginForATenant(t *testing.T) {
	v := variant{own: true, config: mysqlinbox.Config{Begin: func(ctx context.Context, db *sql.DB) (*sql.Tx, error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, "SET @tenant = ?", ctx.Value(tenantKey{})); err != nil {
			return nil, errors.Join(err, tx.Rollback())
		}
		return tx, nil
	}}}
	box, db, _ := stock(t, v, v.config)
	for _, want := range []inbox.Outcome{inbox.Processed, inbox.Duplicate} {
		out, err := box.Do(context.WithValue(t.Context(), tenantKey{}, 2), claim("k"), func(ctx context.Context) error {
			tx, err := inbox.Tx(ctx)
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, "UPDATE stock SET n = n + 1 WHERE item = @tenant")
			return err
		})
		if out != want {
			t.Errorf("%s, want %s: %v", out, want, err)
		}
	}
	if n := count(t, db, "SELECT sum(n * item) FROM stock"); n != 2 {
		t.Errorf("the stock is %d, want one of the tenant's item", n)
	}
}
