package pgxinboxtest_test

import (
	"context"
	"errors"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sekali-mq/sekali/internal/inttest/faultproxy"
	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pgxinbox"
)

var errNo = errors.New("no")

// A message costs two round trips besides its handler's own: BEGIN and the claim,
// the proof and COMMIT.
func TestRoundTripsOfAMessage(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			proxy, box := throughProxy(t, mode)
			run := func(key string, want inbox.Outcome, fn func(context.Context) error) int64 {
				before := proxy.RoundTrips()
				c := inbox.Claim{Consumer: "c", Key: key, Fingerprint: inbox.Fingerprint([]byte(key))}
				if out, err := box.Do(t.Context(), c, fn); out != want {
					t.Fatalf("%s: %s, %v", key, out, err)
				}
				return proxy.RoundTrips() - before
			}
			run("warm", inbox.Processed, nothing)
			run("warm", inbox.Duplicate, nothing)

			// This mode asks for the types of every statement with arguments first.
			describe := int64(0)
			if mode == pgx.QueryExecModeDescribeExec {
				describe = 1
			}
			for _, c := range []struct {
				name, key string
				outcome   inbox.Outcome
				fn        func(context.Context) error
				want      int64
			}{
				{"BEGIN + claim, proof + COMMIT", "a", inbox.Processed, nothing, 2 + describe},
				{"the same with three statements of the handler", "b", inbox.Processed, three, 5 + describe},
				{"BEGIN + claim, look, ROLLBACK of a duplicate", "a", inbox.Duplicate, nothing, 3 + 2*describe},
				{"BEGIN + claim, ROLLBACK of a handler that fails", "c", inbox.Failed, failing, 2 + describe},
				{"the claim that was undone", "c", inbox.Processed, nothing, 2 + describe},
			} {
				if got := run(c.key, c.outcome, c.fn); got != c.want {
					t.Errorf("%s: %d round trips, want %d", c.name, got, c.want)
				}
			}
		})
	}
}

func nothing(context.Context) error { return nil }

func failing(context.Context) error { return errNo }

func three(ctx context.Context) error {
	tx, err := pgxinbox.Tx(ctx)
	if err != nil {
		return err
	}
	for range 3 {
		if _, err := tx.Exec(ctx, "SELECT 1"); err != nil {
			return err
		}
	}
	return nil
}

// throughProxy returns an inbox that reaches its database through one connection.
func throughProxy(t *testing.T, mode pgx.QueryExecMode) (*faultproxy.Proxy, *inbox.Inbox) {
	t.Helper()
	u, err := url.Parse(testservices.NewPostgresDatabase(t))
	if err != nil {
		t.Fatal("parse the server's URL")
	}
	proxy := faultproxy.New(t, u.Host)
	u.Host = proxy.Addr()
	config, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		t.Fatal("parse the proxy's URL")
	}
	config.MaxConns = 1
	config.ConnConfig.DefaultQueryExecMode = mode
	// A ping of a connection that was idle would be counted.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := pgxinbox.Migrate(t.Context(), pool, pgxinbox.Config{}); err != nil {
		t.Fatal(err)
	}
	box, err := pgxinbox.Open(t.Context(), pool, pgxinbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	return proxy, box
}
