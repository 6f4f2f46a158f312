package pgxinbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pgxinbox"
)

// ways are all in which a handler can send a statement. Each returns the error
// that the handler is given.
var ways = map[string]func(ctx context.Context, tx pgx.Tx, statement string) error{
	"Exec": func(ctx context.Context, tx pgx.Tx, s string) error {
		_, err := tx.Exec(ctx, s)
		return err
	},
	"Query": func(ctx context.Context, tx pgx.Tx, s string) error { return scan(tx.Query(ctx, s)) },
	"QueryRow": func(ctx context.Context, tx pgx.Tx, s string) error {
		var n int
		if err := tx.QueryRow(ctx, s).Scan(&n); !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		return nil
	},
	"simple protocol": func(ctx context.Context, tx pgx.Tx, s string) error {
		return scan(tx.Query(ctx, s, pgx.QueryExecModeSimpleProtocol))
	},
	"NamedArgs": func(ctx context.Context, tx pgx.Tx, s string) error {
		_, err := tx.Exec(ctx, s, pgx.NamedArgs{})
		return err
	},
	"QueryRewriter": func(ctx context.Context, tx pgx.Tx, s string) error {
		_, err := tx.Exec(ctx, "SELECT 1", rewriteTo(s))
		return err
	},
	"batch Close": func(ctx context.Context, tx pgx.Tx, s string) error {
		return tx.SendBatch(ctx, batch(s)).Close()
	},
	"batch Exec": func(ctx context.Context, tx pgx.Tx, s string) error {
		br := tx.SendBatch(ctx, batch(s))
		_, err := br.Exec()
		_, err2 := br.Exec()
		return errors.Join(err, err2, br.Close())
	},
	"batch Query": func(ctx context.Context, tx pgx.Tx, s string) error {
		br := tx.SendBatch(ctx, batch(s))
		err := scan(br.Query())
		err2 := scan(br.Query())
		return errors.Join(err, err2, br.Close())
	},
	"batch func": func(ctx context.Context, tx pgx.Tx, s string) error {
		b := &pgx.Batch{}
		b.Queue("SELECT 1")
		b.Queue(s).Query(func(rows pgx.Rows) error { return scan(rows, nil) })
		return tx.SendBatch(ctx, b).Close()
	},
	"batch QueryRewriter": func(ctx context.Context, tx pgx.Tx, s string) error {
		b := &pgx.Batch{}
		b.Queue("SELECT 1", rewriteTo(s))
		return tx.SendBatch(ctx, b).Close()
	},
	"savepoint": func(ctx context.Context, tx pgx.Tx, s string) error {
		nested, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		_, err = nested.Exec(ctx, s)
		return err
	},
}

func batch(statement string) *pgx.Batch {
	b := &pgx.Batch{}
	b.Queue("SELECT 1")
	b.Queue(statement)
	return b
}

// rewriteTo is a pgx.QueryRewriter that puts another text in.
type rewriteTo string

func (s rewriteTo) RewriteQuery(context.Context, *pgx.Conn, string, []any) (string, []any, error) {
	return string(s), nil, nil
}

// Whatever way a statement takes, one that would end the transaction is refused,
// and one that the server refuses is seen: the run is not committed although the
// handler returns nil. The same statement without a fault is.
func TestEveryWayIsGuarded(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			b := newBench(t, mode)
			for name, way := range ways {
				refused := b.swallowed(name+" refused", func(ctx context.Context, tx pgx.Tx) {
					if err := way(ctx, tx, "COMMIT"); err == nil {
						t.Errorf("%s: COMMIT was sent", name)
					}
				})
				if refused != nil && !strings.Contains(refused.Error(), "COMMIT refused") {
					t.Errorf("%s: %v", name, refused)
				}
				b.swallowed(name+" failed", func(ctx context.Context, tx pgx.Tx) {
					if err := way(ctx, tx, bad); err == nil {
						t.Errorf("%s: the handler was not told", name)
					}
				})
				b.processed(name, func(ctx context.Context, tx pgx.Tx) error { return way(ctx, tx, insert(name)) })
				b.effects(name, 1)
			}
		})
	}
}

// The transaction is not the handler's to end; a run that tried is not
// committed.
func TestCommitAndRollbackAreRefused(t *testing.T) {
	b := newBench(t, modes[0])
	for name, end := range map[string]func(pgx.Tx, context.Context) error{"Commit": pgx.Tx.Commit, "Rollback": pgx.Tx.Rollback} {
		s := b.swallowed(name, func(ctx context.Context, tx pgx.Tx) {
			if err := end(tx, ctx); err == nil {
				t.Errorf("%s returned nil", name)
			}
		})
		if s == nil || !strings.Contains(s.Error(), name+" refused") {
			t.Errorf("%s: %v", name, s)
		}
	}
}

// Savepoints are pgx's: Commit keeps, Rollback undoes, also what failed; a closed
// one is closed.
func TestSavepoints(t *testing.T) {
	b := newBench(t, modes[0])
	b.processed("k", func(ctx context.Context, tx pgx.Tx) error {
		no := errors.New("no")
		if err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, insert("kept"))
			return err
		}); err != nil {
			return err
		}
		if err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, insert("undone"))
			return errors.Join(no, err)
		}); !errors.Is(err, no) {
			t.Errorf("undone: %v", err)
		}
		if err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, bad)
			return err
		}); err == nil {
			t.Error("the bad statement succeeded")
		}
		outer, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		inner, err := outer.Begin(ctx)
		if err != nil {
			return err
		}
		if _, err := inner.Exec(ctx, insert("undone")); err != nil {
			return err
		}
		if err := outer.Rollback(ctx); err != nil {
			return err
		}
		for what, tx := range map[string]pgx.Tx{"outer": outer, "inner": inner} {
			if _, err := tx.Exec(ctx, insert("undone")); !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("%s after its end: %v", what, err)
			}
			if err := tx.Rollback(ctx); !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("rollback of %s after its end: %v", what, err)
			}
		}
		return nil
	})
	b.effects("kept", 1)
	b.effects("undone", 0)
}

// After a failure nothing is sent but what undoes it: the handler is told the
// first cause.
func TestFirstCauseIsTold(t *testing.T) {
	b := newBench(t, modes[0])
	b.swallowed("k", func(ctx context.Context, tx pgx.Tx) {
		_, first := tx.Exec(ctx, bad)
		for name, way := range ways {
			if err := way(ctx, tx, "SELECT 1"); err == nil || !strings.Contains(err.Error(), "failed before") || b.box.Class(err) != b.box.Class(first) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"name", "n"}, pgx.CopyFromRows(nil)); err == nil {
			t.Error("CopyFrom was sent")
		}
		if _, err := tx.Prepare(ctx, "p", "SELECT 1"); err == nil {
			t.Error("Prepare was sent")
		}
	})
	b.processed("undone in a batch", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SAVEPOINT mine"); err != nil {
			return err
		}
		_, _ = tx.Exec(ctx, bad)
		again := &pgx.Batch{}
		again.Queue("ROLLBACK TO SAVEPOINT mine")
		if err := tx.SendBatch(ctx, again).Close(); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, insert("undone in a batch"))
		return err
	})
	b.effects("undone in a batch", 1)
}

// The other package's Tx is named where the handle is of this one, and this one's
// where it is not.
func TestTheRightTxIsNamed(t *testing.T) {
	b := newBench(t, modes[0])
	b.processed("k", func(ctx context.Context, _ pgx.Tx) error {
		if _, err := inbox.Tx(ctx); inbox.ClassOf(err) != inbox.ClassConfig || !strings.Contains(err.Error(), "pgxinbox.Tx") {
			t.Errorf("inbox.Tx: %v", err)
		}
		if _, err := inbox.SQLTx(ctx); inbox.ClassOf(err) != inbox.ClassConfig {
			t.Errorf("inbox.SQLTx: %v", err)
		}
		return nil
	})
	if _, err := pgxinbox.Tx(t.Context()); inbox.ClassOf(err) != inbox.ClassConfig || !errors.Is(err, inbox.ErrNoTx) {
		t.Errorf("outside of a claim: %v", err)
	}
	db := stdlib.OpenDBFromPool(b.pool)
	defer db.Close()
	other, err := pginbox.Open(t.Context(), db, pginbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	// The two share their rows.
	none := func(context.Context) error { return nil }
	if out, err := other.Do(t.Context(), inbox.Claim{Consumer: "c", Key: "k"}, none); out != inbox.Duplicate {
		t.Errorf("claim of pgxinbox in pginbox: %s, %v", out, err)
	}
	if out, err := other.Do(t.Context(), inbox.Claim{Consumer: "c", Key: "other"}, func(ctx context.Context) error {
		if _, err := pgxinbox.Tx(ctx); inbox.ClassOf(err) != inbox.ClassConfig || !strings.Contains(err.Error(), "use inbox.Tx") {
			t.Errorf("pgxinbox.Tx in a handler of pginbox: %v", err)
		}
		return nil
	}); out != inbox.Processed {
		t.Errorf("%s, %v", out, err)
	}
}
