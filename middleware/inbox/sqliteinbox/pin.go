package sqliteinbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync/atomic"

	"modernc.org/sqlite"

	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// pin keeps what a handler sends from being committed once SQLite has undone the
// claim's transaction: after an interrupt, OR ROLLBACK, RAISE(ROLLBACK) or a full
// disk each statement would be a transaction of its own. The connection's rollback
// hook tells the end, and its commit hook turns every later COMMIT into a
// ROLLBACK. A connection of an instrumenting driver that does not show its own has
// no hooks; there the transaction is looked at after every error, see undone, and
// proved before it is rolled back.
func pin(_ context.Context, c *sql.Conn) (sqlstore.Pinned, error) {
	var p sqlstore.Pinned
	err := c.Raw(func(dc any) error {
		h, ok := hooks(dc)
		if !ok {
			return nil
		}
		var undone atomic.Bool
		h.RegisterRollbackHook(func() { undone.Store(true) })
		h.RegisterCommitHook(func() int32 {
			if undone.Load() {
				return 1
			}
			return 0
		})
		p = sqlstore.Pinned{Restore: func(context.Context) error { return unpin(c) }, Anytime: true, Gone: undone.Load}
		return nil
	})
	return p, err
}

func unpin(c *sql.Conn) error {
	return c.Raw(func(dc any) error {
		if h, ok := hooks(dc); ok {
			h.RegisterCommitHook(nil)
			h.RegisterRollbackHook(nil)
		}
		return nil
	})
}

// hooks looks through connections of instrumenting drivers.
func hooks(conn any) (sqlite.HookRegisterer, bool) {
	for range 4 {
		w, ok := conn.(interface{ Raw() driver.Conn })
		if !ok {
			break
		}
		conn = w.Raw()
	}
	h, ok := conn.(sqlite.HookRegisterer)
	return h, ok
}

// undone: BEGIN has no effect within a transaction.
func undone(ctx context.Context, tx *sql.Tx) bool {
	if _, err := tx.ExecContext(ctx, "BEGIN"); err != nil {
		return false
	}
	_, _ = tx.ExecContext(ctx, "ROLLBACK")
	return true
}
