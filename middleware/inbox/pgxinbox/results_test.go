package pgxinbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// pair is a pgx.RowScanner.
type pair struct {
	a, b int
	err  error
}

func (p *pair) ScanRow(rows pgx.Rows) error {
	return errors.Join(rows.Scan(&p.a, &p.b), p.err)
}

// What is between the handler and its own types does not spoil the transaction:
// no row, a value that does not fit, an error of its own func.
func TestHandlersOwnErrorsAreItsOwn(t *testing.T) {
	b := newBench(t, modes[0])
	own := errors.New("own")
	b.processed("k", func(ctx context.Context, tx pgx.Tx) error {
		var n int
		if err := tx.QueryRow(ctx, "SELECT 1 WHERE false").Scan(&n); !errors.Is(err, pgx.ErrNoRows) {
			t.Errorf("no row: %v", err)
		}
		if err := tx.QueryRow(ctx, "SELECT 'x'").Scan(&n); err == nil {
			t.Error("a text fits an int")
		}
		rows, err := tx.Query(ctx, "SELECT generate_series(1, 3)")
		if err != nil {
			return err
		}
		if !rows.Next() || rows.Scan(&n, &n) == nil || rows.Next() || rows.Err() == nil {
			t.Error("two values were read from one")
		}
		if err := tx.QueryRow(ctx, "SELECT 1, 2").Scan(&pair{err: own}); !errors.Is(err, own) {
			t.Errorf("RowScanner: %v", err)
		}
		batch := &pgx.Batch{}
		batch.Queue("SELECT 1 WHERE false").QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
		if err := tx.SendBatch(ctx, batch).Close(); !errors.Is(err, pgx.ErrNoRows) {
			t.Errorf("no row in a batch: %v", err)
		}
		_, err = tx.Exec(ctx, insert("k"))
		return err
	})
	b.effects("k", 1)
}

// Results are read as with pgx itself.
func TestResultsAreRead(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			b := newBench(t, mode)
			b.processed("k", func(ctx context.Context, tx pgx.Tx) error {
				type item struct{ N, Sq int32 }
				rows, err := tx.Query(ctx, "SELECT n::int4, (n * n)::int4 AS sq FROM generate_series(1, $1::int) n", 3)
				if err != nil {
					return err
				}
				items, err := pgx.CollectRows(rows, pgx.RowToStructByName[item])
				if err != nil || len(items) != 3 || items[2].Sq != 9 || rows.CommandTag().RowsAffected() != 3 {
					t.Errorf("items %v, tag %s, %v", items, rows.CommandTag(), err)
				}
				var p pair
				if err := tx.QueryRow(ctx, "SELECT 1::int4, 2::int4").Scan(&p); err != nil || p.b != 2 {
					t.Errorf("pair %v, %v", p, err)
				}
				rows, err = tx.Query(ctx, "SELECT 'v'::text")
				if err != nil {
					return err
				}
				maps, err := pgx.CollectRows(rows, pgx.RowToMap)
				if err != nil || maps[0]["text"] != "v" {
					t.Errorf("maps %v, %v", maps, err)
				}
				var sum int
				batch := &pgx.Batch{}
				for n := range 3 {
					batch.Queue("SELECT $1::int", n+1).QueryRow(func(row pgx.Row) error {
						var v int
						defer func() { sum += v }()
						return row.Scan(&v)
					})
				}
				if err := tx.SendBatch(ctx, batch).Close(); err != nil || sum != 6 {
					t.Errorf("sum %d, %v", sum, err)
				}
				if _, err := tx.Prepare(ctx, "named", "SELECT $1::int"); err != nil {
					return err
				}
				if err := tx.QueryRow(ctx, "named", 7).Scan(&sum); err != nil || sum != 7 {
					t.Errorf("prepared: %d, %v", sum, err)
				}
				_, err = tx.Exec(ctx, "INSERT INTO effects VALUES (@name, 1)", pgx.NamedArgs{"name": "k"})
				if err != nil {
					return err
				}
				n, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"name", "n"}, pgx.CopyFromRows([][]any{{"k", int32(1)}, {"k", int32(1)}}))
				if n != 2 {
					t.Errorf("copied %d", n)
				}
				return err
			})
			b.effects("k", 3)
			b.swallowed("bad copy", func(ctx context.Context, tx pgx.Tx) {
				if _, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"name", "n"}, pgx.CopyFromRows([][]any{{"k", int32(0)}})); err == nil {
					t.Error("the copy succeeded")
				}
			})
			b.swallowed("bad argument", func(ctx context.Context, tx pgx.Tx) {
				// It never reaches the server, which would commit without it.
				if _, err := tx.Exec(ctx, "INSERT INTO effects VALUES ('k', $1)", make(chan int)); err == nil {
					t.Error("a channel was sent")
				}
			})
		})
	}
}

// A result that is left open blocks the next statement, and not the commit.
func TestResultsLeftOpen(t *testing.T) {
	b := newBench(t, modes[0])
	open := map[string]func(ctx context.Context, tx pgx.Tx, statement string){
		"rows":  func(ctx context.Context, tx pgx.Tx, s string) { _, _ = tx.Query(ctx, s) },
		"row":   func(ctx context.Context, tx pgx.Tx, s string) { tx.QueryRow(ctx, s) },
		"batch": func(ctx context.Context, tx pgx.Tx, s string) { tx.SendBatch(ctx, batch(s)) },
		"rows of a batch": func(ctx context.Context, tx pgx.Tx, s string) {
			_, _ = tx.SendBatch(ctx, batch(s)).Query()
		},
		"batch with a func": func(ctx context.Context, tx pgx.Tx, s string) {
			batch := &pgx.Batch{}
			batch.Queue(s).Exec(nil) // not called: the handler is gone
			tx.SendBatch(ctx, batch)
		},
	}
	for name, leave := range open {
		b.processed(name, func(ctx context.Context, tx pgx.Tx) error {
			leave(ctx, tx, insert(name))
			return nil
		})
		b.effects(name, 1)
		b.swallowed(name+" bad", func(ctx context.Context, tx pgx.Tx) { leave(ctx, tx, bad) })
		s := b.swallowed(name+" and on", func(ctx context.Context, tx pgx.Tx) {
			leave(ctx, tx, insert(name))
			if _, err := tx.Exec(ctx, "SELECT 1"); err == nil {
				t.Errorf("%s: the next statement was sent", name)
			}
		})
		if s != nil && b.box.Class(s) != inbox.ClassPlain {
			t.Errorf("%s: class %s of %v", name, b.box.Class(s), s)
		}
		b.effects(name, 1)
	}
}
