package sqliteinbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/sqliteinbox"
)

// cancels are called by the SQL function cancel, so that a context ends while its
// statement runs.
var cancels sync.Map // of context.CancelFunc by name

func init() {
	sqlite.MustRegisterScalarFunction("cancel", 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		if f, ok := cancels.Load(args[0]); ok {
			f.(context.CancelFunc)()
		}
		return int64(0), nil
	})
}

// A statement that its own context interrupts takes the transaction with it. The
// handler goes on, through the handle or past it: whatever it returns, nothing of
// the run stays, and a later run does all of it. Without a view of the driver's
// connection (an instrumenting driver) what the raw transaction sent may stay, but
// then no run follows.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(dsn string) *sql.DB{
		"plain": func(dsn string) *sql.DB {
			db, err := sql.Open("sqlite", dsn)
			if err != nil {
				t.Fatal(err)
			}
			return db
		},
		"shown":  func(dsn string) *sql.DB { return sql.OpenDB(wrapped{dsn, true}) },
		"opaque": func(dsn string) *sql.DB { return sql.OpenDB(wrapped{dsn, false}) },
	} {
		for _, raw := range []bool{false, true} {
			for _, ret := range []error{nil, errors.New("a later step failed")} {
				t.Run(fmt.Sprintf("%s/raw %v/%v", name, raw, ret), func(t *testing.T) {
					t.Parallel()
					db := closing(t, connect(sqliteinbox.DSN(filepath.Join(t.TempDir(), "a.db"))))
					if err := sqliteinbox.Migrate(t.Context(), db, sqliteinbox.Config{}); err != nil {
						t.Fatal(err)
					}
					exec(t, db, "CREATE TABLE big (n)", "CREATE TABLE effects (n)")
					box := inboxOn(t, db, inbox.Config{}, 0)
					if err := box.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
						t.Fatal(err)
					}
					claim := inbox.Claim{Consumer: "c", Key: "k"}
					interrupted := func(ctx context.Context) error {
						tx, err := inbox.Tx(ctx)
						if err != nil {
							return err
						}
						if raw {
							if tx, err = inbox.SQLTx(ctx); err != nil {
								return err
							}
						}
						short, cancel := context.WithCancel(ctx)
						defer cancel()
						cancels.Store(t.Name(), cancel)
						if _, err := tx.ExecContext(short, "INSERT INTO big SELECT cancel(?) UNION ALL SELECT n FROM ("+endless+")", t.Name()); !errors.Is(err, context.Canceled) {
							t.Errorf("it was not interrupted: %v", err)
						}
						_, _ = tx.ExecContext(ctx, "INSERT INTO effects VALUES (1)")
						return ret
					}
					const runs = 3
					for range runs {
						if out, err := box.Do(t.Context(), claim, interrupted); out == inbox.Processed || err == nil {
							t.Errorf("%s, %v", out, err)
						}
						var n int
						if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM effects").Scan(&n); err != nil {
							t.Fatal(err)
						}
						if n > 0 && (!raw || name != "opaque") {
							t.Fatalf("%d effects of a run that failed", n)
						}
					}
					out, err := box.Do(t.Context(), claim, func(context.Context) error { return nil })
					if out != inbox.Processed {
						t.Errorf("%s, %v", out, err)
					}
				})
			}
		}
	}
}

// The pool's connections are as they were once a claim's transaction is over.
func TestConnectionIsGivenBack(t *testing.T) {
	t.Parallel()
	db := open(t, sqliteinbox.DSN(filepath.Join(t.TempDir(), "a.db")))
	if err := sqliteinbox.Migrate(t.Context(), db, sqliteinbox.Config{}); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "CREATE TABLE effects (n)")
	box := inboxOn(t, db, inbox.Config{Deadline: 200 * time.Millisecond, LockWait: 100 * time.Millisecond}, 1)
	if err := box.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	for i, fn := range []func(ctx context.Context) error{
		func(context.Context) error { return nil },
		func(context.Context) error { return errors.New("no") },
		func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
		func(ctx context.Context) error {
			tx, err := inbox.SQLTx(ctx)
			if err != nil {
				return err
			}
			return tx.Rollback()
		},
	} {
		_, _ = box.Do(t.Context(), inbox.Claim{Consumer: "c", Key: fmt.Sprint(i)}, fn)
		exec(t, db, "INSERT INTO effects VALUES (1)", "BEGIN", "INSERT INTO effects VALUES (1)", "ROLLBACK", "INSERT INTO effects VALUES (1)")
	}
}
