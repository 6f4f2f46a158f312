package pgxinbox_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pgxinbox"
)

// Nothing that a handler was given reaches the connection after it returned, not
// even what is not guarded.
func TestNothingOutlivesTheHandler(t *testing.T) {
	b := newBench(t, modes[0])
	var tx, nested pgx.Tx
	var rows pgx.Rows
	b.processed("k", func(ctx context.Context, handle pgx.Tx) (err error) {
		tx = handle
		if nested, err = tx.Begin(ctx); err != nil {
			return err
		}
		rows, err = nested.Query(ctx, "SELECT generate_series(1, 1000)")
		return err
	})
	ctx := t.Context()
	if rows.Next() || rows.Scan() == nil || rows.RawValues() != nil || rows.FieldDescriptions() != nil || rows.Conn() != nil {
		t.Error("rows are still open")
	}
	rows.Close()
	if _, err := rows.Values(); err == nil {
		t.Error("rows have values")
	}
	for name, way := range ways {
		for what, tx := range map[string]pgx.Tx{"handle": tx, "savepoint": nested} {
			if err := way(ctx, tx, insert("late")); !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("%s on the %s: %v", name, what, err)
			}
		}
	}
	_, begin := tx.Begin(ctx)
	_, prepare := tx.Prepare(ctx, "late", "SELECT 1")
	_, copied := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"name", "n"}, pgx.CopyFromRows([][]any{{"late", 1}}))
	objects := tx.LargeObjects()
	_, create := objects.Create(ctx, 0)
	for i, err := range []error{begin, prepare, copied, create, tx.Commit(ctx), tx.Rollback(ctx), nested.Commit(ctx), nested.Rollback(ctx)} {
		if !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if tx.Conn() != nil {
		t.Error("the connection is given away")
	}
	b.effects("late", 0)
}

// Conn and LargeObjects work, and their connection goes with the run, so that late
// use cannot meet another message.
func TestUnguardedConnectionGoesWithTheRun(t *testing.T) {
	b := newBench(t, modes[0])
	var conn *pgx.Conn
	b.processed("conn", func(ctx context.Context, tx pgx.Tx) error {
		conn = tx.Conn()
		_, err := conn.Exec(ctx, insert("conn"))
		return err
	})
	b.effects("conn", 1)
	if !conn.IsClosed() {
		t.Error("the connection went back to the pool")
	}
	var object *pgx.LargeObject
	b.processed("object", func(ctx context.Context, tx pgx.Tx) error {
		objects := tx.LargeObjects()
		id, err := objects.Create(ctx, 0)
		if err != nil {
			return err
		}
		if object, err = objects.Open(context.WithoutCancel(ctx), id, pgx.LargeObjectModeWrite); err != nil {
			return err
		}
		_, err = io.WriteString(object, "text")
		return err
	})
	if _, err := io.WriteString(object, "late"); err == nil {
		t.Error("a late write to a large object succeeded")
	}
	if out, err := b.do("swallowed", func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Conn().Exec(ctx, bad)
		return nil
	}); out != inbox.Failed {
		t.Errorf("an error swallowed on the connection: %s, %v", out, err)
	}
}

// Two calls at a time are not served, and the run is not committed: one of them
// did not take place.
func TestOneCallAtATime(t *testing.T) {
	b := newBench(t, modes[0])
	b.swallowed("k", func(ctx context.Context, tx pgx.Tx) {
		inside, gate := make(chan struct{}), make(chan struct{})
		done := make(chan error, 1)
		go func() {
			_, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"name", "n"}, pgx.CopyFromFunc(func() ([]any, error) {
				close(inside)
				<-gate
				return nil, nil
			}))
			done <- err
		}()
		<-inside
		if _, err := tx.Exec(ctx, insert("k")); err == nil {
			t.Error("the second call was served")
		}
		close(gate)
		if err := <-done; err != nil {
			t.Errorf("the first call: %v", err)
		}
	})
}

// A claim's time is known to the failure of its handler, at no extra trip.
func TestFailureKnowsWhenItHeldTheClaim(t *testing.T) {
	b := newBench(t, modes[0])
	_, err := b.do("k", func(context.Context, pgx.Tx) error { return errors.New("no") })
	var e *inbox.Error
	if !errors.As(err, &e) || e.ClaimedAt.IsZero() {
		t.Errorf("claimed at %v, %v", e, err)
	}
	if n := b.box.MaxConnections(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// The deadline of a run ends what it has under way, guarded or not.
func TestDeadlineEndsEveryStatement(t *testing.T) {
	b := newBench(t, modes[0])
	b.box = openOn(t, b.pool, pgxinbox.Config{Config: inbox.Config{LockWait: 1, Deadline: 200 * time.Millisecond}})
	if err := b.box.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	const long = "SELECT pg_sleep(60)"
	for name, sleep := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"Exec": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, long)
			return err
		},
		"Query": func(ctx context.Context, tx pgx.Tx) error { return scan(tx.Query(ctx, long)) },
		"batch": func(ctx context.Context, tx pgx.Tx) error { return tx.SendBatch(ctx, batch(long)).Close() },
		"Conn": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Conn().Exec(ctx, long)
			return err
		},
	} {
		out, err := b.do(name, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, insert(name)); err != nil {
				return err
			}
			if err := sleep(context.WithoutCancel(ctx), tx); err == nil {
				t.Errorf("%s: it ran to its end", name)
			}
			return nil
		})
		if out != inbox.Failed || inbox.ClassOf(err) != inbox.ClassPlain {
			t.Errorf("%s: %s, class %s, %v", name, out, inbox.ClassOf(err), err)
		}
		b.effects(name, 0)
	}
}
