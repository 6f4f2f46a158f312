package pgxinbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pgxinbox"
)

// bench is an inbox with the consumer c, and a table that handlers write to.
type bench struct {
	*testing.T
	url  string
	pool *pgxpool.Pool
	box  *inbox.Inbox
}

func newBench(t *testing.T, mode pgx.QueryExecMode) *bench {
	t.Helper()
	return benchOn(t, testservices.NewPostgresDatabase(t), mode)
}

func benchOn(t *testing.T, url string, mode pgx.QueryExecMode) *bench {
	t.Helper()
	pool := connect(t, url, mode, 2)
	migrate(t, pool, pgxinbox.Config{})
	b := &bench{T: t, url: url, pool: pool, box: openOn(t, pool, pgxinbox.Config{})}
	if err := b.box.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	b.exec("CREATE TABLE effects (name TEXT NOT NULL, n INT NOT NULL CHECK (n > 0))")
	return b
}

func (b *bench) exec(statement string) {
	b.Helper()
	if _, err := b.pool.Exec(b.Context(), statement); err != nil {
		b.Fatalf("%s: %v", statement, err)
	}
}

// do runs a handler that has the transaction.
func (b *bench) do(key string, fn func(ctx context.Context, tx pgx.Tx) error) (inbox.Outcome, error) {
	b.Helper()
	return b.box.Do(b.Context(), inbox.Claim{Consumer: "c", Key: key}, func(ctx context.Context) error {
		tx, err := pgxinbox.Tx(ctx)
		if err != nil {
			return err
		}
		return fn(ctx, tx)
	})
}

// processed fails the test unless the handler is committed.
func (b *bench) processed(key string, fn func(ctx context.Context, tx pgx.Tx) error) {
	b.Helper()
	if out, err := b.do(key, fn); out != inbox.Processed {
		b.Errorf("%s: %s, %v; want processed", key, out, err)
	}
}

// swallowed fails the test unless the handler, which returns nil, is not
// committed because of an error that it was given.
func (b *bench) swallowed(key string, fn func(ctx context.Context, tx pgx.Tx)) *inbox.SwallowedError {
	b.Helper()
	out, err := b.do(key, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insert(key))
		fn(ctx, tx)
		return err
	})
	var s *inbox.SwallowedError
	if out != inbox.Failed || !errors.As(err, &s) {
		b.Errorf("%s: %s, %v; want a swallowed error", key, out, err)
	}
	b.effects(key, 0)
	return s
}

// effects fails the test unless as many rows are committed under the name.
func (b *bench) effects(name string, want int) {
	b.Helper()
	var got int
	if err := b.pool.QueryRow(b.Context(), "SELECT count(*) FROM effects WHERE name = $1", name).Scan(&got); err != nil {
		b.Fatal(err)
	}
	if got != want {
		b.Errorf("%s: %d effects, want %d", name, got, want)
	}
}

func insert(name string) string { return "INSERT INTO effects VALUES ('" + name + "', 1)" }

// bad is a statement that the server refuses.
const bad = "INSERT INTO effects VALUES ('bad', 0)"

// scan reads all rows.
func scan(rows pgx.Rows, _ error) error {
	for rows.Next() {
	}
	return rows.Err()
}
