package mysqlinbox_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/mysqlinbox"
)

// A connection of a pool opened with DSN has what the claim's session needs.
func TestDSN(t *testing.T) {
	direct := testservices.NewMariaDBDatabase(t)
	for level, want := range map[sql.IsolationLevel]string{
		sql.LevelDefault: "READ-COMMITTED", sql.LevelRepeatableRead: "REPEATABLE-READ", sql.LevelSerializable: "SERIALIZABLE",
	} {
		dsn, err := mysqlinbox.DSN(direct, mysqlinbox.Config{Isolation: level, Config: inbox.Config{LockWait: 1500 * time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		var autocommit, wait int
		var isolation string
		if err := openDB(t, dsn).QueryRowContext(t.Context(), "SELECT @@autocommit, @@tx_isolation, @@innodb_lock_wait_timeout").Scan(&autocommit, &isolation, &wait); err != nil {
			t.Fatal(err)
		}
		if autocommit != 0 || isolation != want || wait != 2 {
			t.Errorf("%s: autocommit %d, isolation %s, lock wait %d", level, autocommit, isolation, wait)
		}
	}
	if _, err := mysqlinbox.DSN(direct, mysqlinbox.Config{Isolation: sql.LevelLinearizable}); inbox.ClassOf(err) != inbox.ClassConfig {
		t.Errorf("error %v", err)
	}
}

// A connection of a pool that others use is as it was after a run, whatever became
// of it.
func TestSessionIsRestored(t *testing.T) {
	for _, v := range []variant{{}, {plain: true}} {
		_, _, dsn := stock(t, v, mysqlinbox.Config{})
		own, db := v.open(t, dsn, mysqlinbox.Config{})
		db.SetMaxOpenConns(1)
		register(t, own)
		for key, fn := range endings {
			_, _ = own.Do(t.Context(), claim(key), fn)
			var session string
			if err := db.QueryRowContext(t.Context(), "SELECT CONCAT(IF(@@autocommit, 1, 0), @@in_transaction, ' ', @@tx_isolation, ' ', @@innodb_lock_wait_timeout)").Scan(&session); err != nil || session != "10 REPEATABLE-READ 50" {
				t.Errorf("after %s: %q, %v", key, session, err)
			}
		}
	}
}

var endings = map[string]func(context.Context) error{
	"commit":   func(ctx context.Context) error { return add(ctx, 1) },
	"error":    func(ctx context.Context) error { return errors.Join(add(ctx, 1), errors.New("no")) },
	"COMMIT":   func(ctx context.Context) error { return errors.Join(add(ctx, 1), raw(ctx, "COMMIT")) },
	"tables":   func(ctx context.Context) error { return raw(ctx, "LOCK TABLES stock WRITE") },
	"swallows": func(ctx context.Context) error { _ = raw(ctx, "SELEKT"); return nil },
}
