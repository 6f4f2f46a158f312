package mysqlinbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// again runs Do as callers do: what the database undid is run again. It counts
// the errors by number.
func again(t *testing.T, box *inbox.Inbox, c inbox.Claim, seen *numbers, fn func(context.Context) error) inbox.Outcome {
	t.Helper()
	for {
		out, err := box.Do(t.Context(), c, fn)
		seen.add(err)
		if inbox.ClassOf(err) != inbox.ClassTransient || t.Context().Err() != nil {
			if err != nil {
				t.Errorf("%s: %s, class %s, %v", c, out, inbox.ClassOf(err), err)
			}
			return out
		}
	}
}

type numbers struct {
	mu sync.Mutex
	m  map[uint16]int
}

func (n *numbers) add(err error) {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.m == nil {
		n.m = make(map[uint16]int)
	}
	n.m[e.Number]++
}

// Fifty processes wait for the claim of one that rolls back: some are victims of
// a deadlock, one does the work, the others are duplicates.
func TestCopiesWaitingForARolledBackHolder(t *testing.T) {
	const copies = 50
	for _, v := range variants[:4] {
		t.Run(v.name, func(t *testing.T) {
			holder, db, dsn := stock(t, v, v.config)
			boxes := make([]*inbox.Inbox, copies)
			for i := range boxes {
				var pool *sql.DB
				boxes[i], pool = v.open(t, dsn, v.config)
				pool.SetMaxOpenConns(1)
				register(t, boxes[i])
			}
			var seen numbers
			var calls, processed, duplicates atomic.Int64
			var wg sync.WaitGroup
			out, err := holder.Do(t.Context(), claim("k"), func(ctx context.Context) error {
				if err := add(ctx, 1); err != nil {
					return err
				}
				for _, box := range boxes {
					wg.Go(func() {
						switch again(t, box, claim("k"), &seen, func(ctx context.Context) error {
							calls.Add(1)
							return add(ctx, 1)
						}) {
						case inbox.Processed:
							processed.Add(1)
						case inbox.Duplicate:
							duplicates.Add(1)
						default:
						}
					})
				}
				for count(t, db, waiting) < copies {
					exec(t, db, "DO SLEEP(0.11)")
				}
				return errors.New("no")
			})
			wg.Wait()
			if out != inbox.Failed || inbox.ClassOf(err) != inbox.ClassPlain {
				t.Errorf("holder: %s, %v", out, err)
			}
			if processed.Load() != 1 || duplicates.Load() != copies-1 || calls.Load() != 1 {
				t.Errorf("%d processed, %d duplicates, %d calls", processed.Load(), duplicates.Load(), calls.Load())
			}
			if n := count(t, db, "SELECT n FROM stock WHERE item = 1"); n != 1 {
				t.Errorf("%d effects", n)
			}
			t.Logf("errors on the way: %v", seen.m)
			if seen.m[1213] == 0 {
				t.Error("no deadlock was provoked")
			}
		})
	}
}

const waiting = `SELECT count(*) FROM information_schema.INNODB_TRX t JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id
	WHERE p.DB = DATABASE() AND t.trx_state = 'LOCK WAIT'`

// Two handlers that lock the same rows in opposite order: one is the victim, is
// run again as a whole, and both take effect once.
func TestDeadlockInHandlers(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			box, db, _ := stock(t, v, v.config)
			var seen numbers
			var wg sync.WaitGroup
			// Both hold their first row before either asks for its second one.
			var first sync.WaitGroup
			first.Add(2)
			for key, items := range map[string][2]int{"a": {1, 2}, "b": {2, 1}} {
				wg.Go(func() {
					var once sync.Once
					if out := again(t, box, claim(key), &seen, func(ctx context.Context) error {
						if err := add(ctx, items[0]); err != nil {
							return err
						}
						once.Do(first.Done)
						first.Wait()
						return add(ctx, items[1])
					}); out != inbox.Processed {
						t.Errorf("%s: %s", key, out)
					}
				})
			}
			wg.Wait()
			if n := count(t, db, "SELECT sum(n) FROM stock"); n != 4 {
				t.Errorf("%d effects, want 4", n)
			}
			if seen.m[1213] == 0 {
				t.Errorf("no deadlock was provoked: %v", seen.m)
			}
		})
	}
}

// victim makes the transaction of ctx the victim of a deadlock with another one
// and returns what the last statement gave; ask asks for row 2.
func victim(ctx context.Context, t *testing.T, db *sql.DB, ask func(ctx context.Context) error) error {
	t.Helper()
	if err := add(ctx, 1); err != nil {
		return err
	}
	other, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback() }()
	// It has changed more rows, so the server chooses the handler's.
	for _, s := range []string{"UPDATE stock SET n = n + 100 WHERE item > 1", "INSERT INTO stock SELECT seq, 0 FROM seq_100_to_300"} {
		if _, err := other.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := other.ExecContext(t.Context(), "UPDATE stock SET n = n + 100 WHERE item = 1")
		done <- err
	}()
	for count(t, db, waiting) == 0 {
		exec(t, db, "DO SLEEP(0.11)")
	}
	err = ask(ctx)
	if err := <-done; err != nil {
		t.Errorf("the other transaction: %v", err)
	}
	return err
}

// After a deadlock the transaction is gone, and what follows would be in none or
// in another one. A handler that swallows the deadlock is never committed, by
// whatever way it swallowed it, and nothing that it wrote afterwards stays.
func TestSwallowedDeadlock(t *testing.T) {
	for _, v := range variants[:4] {
		for _, way := range []struct {
			name  string
			ask   func(ctx context.Context) error
			write func(ctx context.Context) error
			class inbox.Class
		}{
			// Seen by the guard, which sends nothing more.
			{"guarded", func(ctx context.Context) error { return add(ctx, 2) }, func(ctx context.Context) error { return add(ctx, 3) }, inbox.ClassTransient},
			{"query", queryRow, func(ctx context.Context) error { return add(ctx, 3) }, inbox.ClassTransient},
			// Not seen by it.
			{"prepared", prepared, func(ctx context.Context) error { return add(ctx, 3) }, inbox.ClassPlain},
			// Past it: nobody can tell this from a handler that rolled back.
			{"raw", func(ctx context.Context) error { return raw(ctx, "UPDATE stock SET n = n + 1 WHERE item = 2") }, func(ctx context.Context) error { return raw(ctx, "UPDATE stock SET n = n + 1 WHERE item = 3") }, inbox.ClassPermanent},
		} {
			t.Run(v.name+"/"+way.name, func(t *testing.T) {
				box, db, _ := stock(t, v, v.config)
				out, err := box.Do(t.Context(), claim("k"), func(ctx context.Context) error {
					var e *mysql.MySQLError
					if err := victim(ctx, t, db, way.ask); !errors.As(err, &e) || e.Number != 1213 {
						t.Errorf("no deadlock: %v", err)
					}
					_ = way.write(ctx)
					return nil
				})
				var swallowed *inbox.SwallowedError
				if out != inbox.Failed || inbox.ClassOf(err) != way.class || errors.As(err, &swallowed) == errors.Is(err, inbox.ErrSplit) {
					t.Errorf("%s, class %s, %v", out, inbox.ClassOf(err), err)
				}
				if n := count(t, db, "SELECT sum(n) FROM stock"); n != 0 {
					t.Errorf("%d was written", n)
				}
				if out, err := box.Do(t.Context(), claim("k"), func(ctx context.Context) error { return add(ctx, 1) }); out != inbox.Processed {
					t.Errorf("next copy: %s, %v", out, err)
				}
			})
		}
	}
}

func queryRow(ctx context.Context) error {
	tx, err := inbox.Tx(ctx)
	if err != nil {
		return err
	}
	var n int
	return tx.QueryRowContext(ctx, "SELECT n FROM stock WHERE item = 2 FOR UPDATE").Scan(&n)
}

func prepared(ctx context.Context) error {
	tx, err := inbox.Tx(ctx)
	if err != nil {
		return err
	}
	st, err := tx.PrepareContext(ctx, "UPDATE stock SET n = n + ? WHERE item = 2")
	if err != nil {
		return err
	}
	_, err = st.ExecContext(ctx, 1)
	return errors.Join(err, st.Close())
}

// A row that another transaction holds for too long fails the statement with
// 1205; the run is repeated and takes effect once.
func TestLockWaitInHandler(t *testing.T) {
	for _, v := range variants[:4] {
		t.Run(v.name, func(t *testing.T) {
			c := v.config
			c.LockWait = time.Second
			box, db, _ := stock(t, v, c)
			holder, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = holder.Rollback() }()
			if _, err := holder.ExecContext(t.Context(), "UPDATE stock SET n = n WHERE item = 1"); err != nil {
				t.Fatal(err)
			}
			var seen numbers
			out := again(t, box, claim("k"), &seen, func(ctx context.Context) error {
				err := errors.Join(raw(ctx, "SET innodb_lock_wait_timeout = 1"), add(ctx, 1))
				if err != nil {
					_ = holder.Rollback()
				}
				return err
			})
			if out != inbox.Processed || seen.m[1205] != 1 {
				t.Errorf("%s, errors %v", out, seen.m)
			}
			if n := count(t, db, "SELECT n FROM stock WHERE item = 1"); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

// With snapshot isolation a row that changed since the handler read it fails the
// statement with 1020 and undoes the transaction; swallowed or returned, the run
// is repeated and takes effect once.
func TestSnapshotConflictInHandler(t *testing.T) {
	for _, swallow := range []bool{false, true} {
		t.Run(fmt.Sprintf("swallowed=%v", swallow), func(t *testing.T) {
			v := variants[4]
			box, db, _ := stock(t, v, v.config)
			var seen numbers
			out := again(t, box, claim("k"), &seen, func(ctx context.Context) error {
				if err := queryStock(ctx); err != nil {
					return err
				}
				if len(seen.m) == 0 {
					exec(t, db, "UPDATE stock SET n = n + 10 WHERE item = 1")
				}
				err := add(ctx, 1)
				if err != nil && swallow {
					seen.add(err)
					return nil
				}
				return err
			})
			if out != inbox.Processed || seen.m[1020] == 0 {
				t.Errorf("%s, errors %v", out, seen.m)
			}
			if n := count(t, db, "SELECT n FROM stock WHERE item = 1"); n != 11 {
				t.Errorf("stock is %d", n)
			}
		})
	}
}

func queryStock(ctx context.Context) error {
	tx, err := inbox.Tx(ctx)
	if err != nil {
		return err
	}
	var n int
	return tx.QueryRowContext(ctx, "SELECT n FROM stock WHERE item = 1").Scan(&n)
}

// A claim in a transaction whose snapshot is older than the other's claim
// conflicts too, where a Begin func reads first.
func TestSnapshotConflictOnTheClaim(t *testing.T) {
	v := variants[4]
	box, db, dsn := stock(t, v, v.config)
	var seen numbers
	var stale atomic.Bool
	c := v.config
	c.Begin = func(ctx context.Context, db *sql.DB) (*sql.Tx, error) {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		if err != nil {
			return nil, err
		}
		var n int
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM processed_messages").Scan(&n); err != nil {
			return nil, errors.Join(err, tx.Rollback())
		}
		if stale.CompareAndSwap(true, false) {
			if out, err := box.Do(ctx, claim("k"), func(ctx context.Context) error { return add(ctx, 1) }); out != inbox.Processed {
				t.Errorf("%s, %v", out, err)
			}
		}
		return tx, nil
	}
	own, _ := variant{own: true, dsn: v.dsn}.open(t, dsn, c)
	register(t, own)
	stale.Store(true)
	out := again(t, own, claim("k"), &seen, never(t))
	if out != inbox.Duplicate {
		t.Errorf("%s, errors %v", out, seen.m)
	}
	t.Logf("errors on the way: %v", seen.m)
	if n := count(t, db, "SELECT n FROM stock WHERE item = 1"); n != 1 {
		t.Errorf("%d effects", n)
	}
}
