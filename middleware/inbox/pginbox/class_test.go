package pginbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
)

// boxOn opens an inbox with consumer "c" on an empty database, or on the given
// one.
func boxOn(t *testing.T, driver, url string, c pginbox.Config) *inbox.Inbox {
	t.Helper()
	db := open(t, driver, url)
	if err := pginbox.Migrate(t.Context(), db, c); err != nil {
		t.Fatal(err)
	}
	box, err := pginbox.Open(t.Context(), db, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	return box
}

func send(ctx context.Context, statements ...string) error {
	tx, err := inbox.Tx(ctx)
	if err != nil {
		return err
	}
	for _, s := range statements {
		if _, err := tx.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("handler: %w", err)
		}
	}
	return nil
}

// Errors that the server really sent get the class that says what to do,
// wrapped or not, on both drivers.
func TestClasses(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			url := testservices.NewPostgresDatabase(t)
			admin := open(t, driver, url)
			exec(t, admin, `CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(3) NOT NULL CHECK (s <> 'bad'), r INT REFERENCES t)`,
				`INSERT INTO t VALUES (1, 'a'), (9, 'x')`)
			box := boxOn(t, driver, url, pginbox.Config{})
			locked, err := admin.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = locked.Rollback() }()
			if _, err := locked.ExecContext(t.Context(), `UPDATE t SET s = 'b' WHERE id = 9`); err != nil {
				t.Fatal(err)
			}
			for i, c := range []struct {
				statements []string
				want       inbox.Class
			}{
				{[]string{`INSERT INTO t VALUES (2, 'long')`}, inbox.ClassPermanent},
				{[]string{`INSERT INTO t VALUES (2, NULL)`}, inbox.ClassPermanent},
				{[]string{`INSERT INTO t VALUES (2, 'bad')`}, inbox.ClassPermanent},
				{[]string{`SELECT 'x'::int`}, inbox.ClassPermanent},
				{[]string{`INSERT INTO t VALUES (1, 'a')`}, inbox.ClassPlain},    // unique: often a race
				{[]string{`INSERT INTO t VALUES (2, 'a', 3)`}, inbox.ClassPlain}, // foreign key: often heals
				{[]string{`SELEKT`}, inbox.ClassPlain},
				{[]string{`SELECT * FROM no_such_table`}, inbox.ClassConfig},
				{[]string{`SELECT no_such_column FROM t`}, inbox.ClassConfig},
				{[]string{`CREATE ROLE r`, `SET ROLE r`, `SELECT * FROM t`}, inbox.ClassConfig},
				{[]string{`SET LOCAL lock_timeout = '10ms'`, `UPDATE t SET s = 'c' WHERE id = 9`}, inbox.ClassTransient},
				{[]string{`SET LOCAL statement_timeout = '10ms'`, `SELECT pg_sleep(10)`}, inbox.ClassPlain},
				{[]string{`SET TRANSACTION READ ONLY`, `INSERT INTO t VALUES (2, 'a')`}, inbox.ClassDown}, // a standby; it refuses the next claim
			} {
				out, err := box.Do(t.Context(), inbox.Claim{Consumer: "c", Key: fmt.Sprint(i)}, func(ctx context.Context) error {
					return send(ctx, c.statements...)
				})
				if out != inbox.Failed || inbox.ClassOf(err) != c.want {
					t.Errorf("%v: %s, class %s, want %s: %v", c.statements, out, inbox.ClassOf(err), c.want, err)
				}
			}
		})
	}
}

// A session that the server ends because its handler was busy elsewhere is not
// committed.
func TestIdleInTransactionTimeout(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			url := testservices.NewPostgresDatabase(t)
			box := boxOn(t, driver, url, pginbox.Config{})
			db := open(t, driver, url)
			out, err := box.Do(t.Context(), inbox.Claim{Consumer: "c", Key: "k"}, func(ctx context.Context) error {
				if err := send(ctx, `SET LOCAL idle_in_transaction_session_timeout = '50ms'`); err != nil {
					return err
				}
				for gone := false; !gone; {
					if err := db.QueryRowContext(ctx, `SELECT NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction')`).Scan(&gone); err != nil {
						return err
					}
				}
				return nil
			})
			// The server's word for it makes an attempt; a driver that tells only of a
			// lost connection makes a wait.
			if c := inbox.ClassOf(err); out != inbox.Failed || c != inbox.ClassDown && c != inbox.ClassTransient && c != inbox.ClassPlain {
				t.Errorf("%s, class %s, %v", out, c, err)
			}
			if out, err := box.Do(t.Context(), inbox.Claim{Consumer: "c", Key: "k"}, func(context.Context) error { return nil }); out != inbox.Processed {
				t.Errorf("again: %s, %v", out, err)
			}
		})
	}
}

// A real deadlock of two handlers is transient; run again as a whole, each takes
// effect once.
func TestDeadlock(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			url := testservices.NewPostgresDatabase(t)
			admin := open(t, driver, url)
			exec(t, admin, `CREATE TABLE t (id INT PRIMARY KEY, n INT)`, `INSERT INTO t VALUES (1, 0), (2, 0)`)
			box := boxOn(t, driver, url, pginbox.Config{})
			var meet, wg sync.WaitGroup
			meet.Add(2)
			var deadlocks atomic.Int64
			for i := range 2 {
				wg.Go(func() {
					first := true
					for {
						out, err := box.Do(t.Context(), inbox.Claim{Consumer: "c", Key: fmt.Sprint(i)}, func(ctx context.Context) error {
							if err := send(ctx, fmt.Sprintf(`UPDATE t SET n = n + 1 WHERE id = %d`, 1+i)); err != nil {
								return err
							}
							if first {
								first = false
								meet.Done()
								meet.Wait()
							}
							return send(ctx, fmt.Sprintf(`UPDATE t SET n = n + 1 WHERE id = %d`, 2-i))
						})
						if out == inbox.Processed {
							return
						}
						if inbox.ClassOf(err) != inbox.ClassTransient {
							t.Errorf("%s, class %s, %v", out, inbox.ClassOf(err), err)
							return
						}
						deadlocks.Add(1)
					}
				})
			}
			wg.Wait()
			var sum int
			if err := admin.QueryRowContext(t.Context(), `SELECT sum(n) FROM t`).Scan(&sum); err != nil || sum != 4 {
				t.Errorf("sum %d, want 4: %v", sum, err)
			}
			if deadlocks.Load() == 0 {
				t.Error("there was no deadlock")
			}
		})
	}
}

// Whatever way a handler swallows an error, it is not committed, and the inbox
// asks a failed transaction nothing: the server's log shows no "current
// transaction is aborted" that a handler did not cause itself.
func TestSwallowedErrorsLeaveTheLogClean(t *testing.T) {
	server := testservices.Start(t, "postgres")
	swallow := map[string]func(ctx context.Context) error{
		"Exec": func(ctx context.Context) error { _ = send(ctx, `SELECT 1/0`); return nil },
		"goes on": func(ctx context.Context) error {
			_ = send(ctx, `SELECT 1/0`)
			return send(ctx, `SELECT 1`) // answered with the first cause
		},
		"Query": func(ctx context.Context) error {
			tx, err := inbox.Tx(ctx)
			if err != nil {
				return err
			}
			rows, err := tx.QueryContext(ctx, `SELECT 1/(2-n) FROM generate_series(1, 3) n`)
			if err == nil {
				for rows.Next() {
				}
				_ = rows.Err()
				_ = rows.Close()
			}
			return nil
		},
		"open rows": func(ctx context.Context) error {
			tx, err := inbox.Tx(ctx)
			if err != nil {
				return err
			}
			_, _ = tx.QueryContext(ctx, `SELECT 1/(2000-n) FROM generate_series(1, 3000) n`) //nolint:sqlclosecheck,rowserrcheck // the mistake
			return nil
		},
		"QueryRow": func(ctx context.Context) error {
			tx, err := inbox.Tx(ctx)
			if err != nil {
				return err
			}
			var n int
			_ = tx.QueryRowContext(ctx, `SELECT 1/0`).Scan(&n)
			return nil
		},
		"Prepare": func(ctx context.Context) error {
			tx, err := inbox.Tx(ctx)
			if err != nil {
				return err
			}
			st, err := tx.PrepareContext(ctx, `SELECT 1/$1::int`)
			if err != nil {
				return err
			}
			_, _ = st.ExecContext(ctx, 0)
			return st.Close()
		},
		"raw": func(ctx context.Context) error {
			tx, err := inbox.SQLTx(ctx)
			if err != nil {
				return err
			}
			_, _ = tx.ExecContext(ctx, `SELECT 1/0`)
			return nil
		},
		"raw, returned": func(ctx context.Context) error {
			tx, err := inbox.SQLTx(ctx)
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, `SELECT 1/0`)
			return err
		},
	}
	for _, driver := range drivers {
		box := boxOn(t, driver, server.NewDatabase(), pginbox.Config{})
		for name, fn := range swallow {
			c := inbox.Claim{Consumer: "c", Key: name}
			if out, err := box.Do(t.Context(), c, fn); out != inbox.Failed || err == nil || errors.Is(err, inbox.ErrSplit) {
				t.Errorf("%s, %s: %s, %v", driver, name, out, err)
			}
			if out, err := box.Do(t.Context(), c, func(context.Context) error { return nil }); out != inbox.Processed {
				t.Errorf("%s, %s again: %s, %v", driver, name, out, err)
			}
		}
	}
	log, err := os.ReadFile(server.Log())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "current transaction is aborted") || strings.Contains(line, "25P02") {
			t.Errorf("the server's log: %s", line)
		}
	}
	if !strings.Contains(string(log), "division by zero") {
		t.Error("the log shows none of the errors: it is not the one to look at")
	}
}

// A transaction that the user begins, with settings of its own: the context is
// cancelled apart from Do's, but has its values.
func TestBegin(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			box := boxOn(t, driver, testservices.NewPostgresDatabase(t), pginbox.Config{Begin: beginTenant})
			c := inbox.Claim{Consumer: "c", Key: "k"}
			acme := context.WithValue(t.Context(), tenantKey{}, "acme")
			out, err := box.Do(acme, c, func(ctx context.Context) error {
				tx, err := inbox.Tx(ctx)
				if err != nil {
					return err
				}
				var tenant string
				if err := tx.QueryRowContext(ctx, `SELECT current_setting('app.tenant')`).Scan(&tenant); err != nil {
					return err
				}
				if tenant != "acme" {
					return errors.New("tenant " + tenant)
				}
				return nil
			})
			if out != inbox.Processed {
				t.Errorf("%s, %v", out, err)
			}
			if out, err := box.Do(acme, c, func(context.Context) error { return nil }); out != inbox.Duplicate {
				t.Errorf("%s, %v", out, err)
			}
			out, err = box.Do(acme, inbox.Claim{Consumer: "c", Key: "ends"}, func(ctx context.Context) error {
				tx, err := inbox.SQLTx(ctx)
				if err != nil {
					return err
				}
				_, err = tx.ExecContext(ctx, "COMMIT")
				return err
			})
			if out != inbox.Failed || !errors.Is(err, inbox.ErrSplit) {
				t.Errorf("%s, %v", out, err)
			}
		})
	}
}
