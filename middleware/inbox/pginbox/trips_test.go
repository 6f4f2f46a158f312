package pginbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
)

// What a message costs, counted on the wire.
func TestRoundTrips(t *testing.T) {
	for _, c := range []struct{ driver, parameters string }{{"postgres", ""}, {"postgres", "&binary_parameters=yes"}, {"pgx", ""}} {
		t.Run(c.driver+c.parameters, func(t *testing.T) {
			driver := c.driver
			direct := testservices.NewPostgresDatabase(t)
			proxy, proxied := proxyTo(t, direct)
			if err := pginbox.Migrate(t.Context(), open(t, driver, direct), pginbox.Config{}); err != nil {
				t.Fatal(err)
			}
			db := open(t, driver, proxied+c.parameters)
			db.SetMaxOpenConns(1)
			box, err := pginbox.Open(t.Context(), db, pginbox.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if err := box.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
				t.Fatal(err)
			}
			argument := 5 // trips of a message whose handler sends a statement with an argument
			if driver == "postgres" && c.parameters == "" {
				argument = 6
			}
			none := func(context.Context) error { return nil }
			one := func(ctx context.Context) error {
				tx, err := inbox.Tx(ctx)
				if err != nil {
					return err
				}
				_, err = tx.ExecContext(ctx, "SELECT 1")
				return err
			}
			with := func(ctx context.Context) error {
				tx, err := inbox.Tx(ctx)
				if err != nil {
					return err
				}
				_, err = tx.ExecContext(ctx, "SELECT $1::int", 1)
				return err
			}
			failing := func(context.Context) error { return errors.New("no") }
			run := func(key string, fn func(context.Context) error) int {
				before := proxy.Trips()
				_, _ = box.Do(t.Context(), inbox.Claim{Consumer: "c", Key: key}, fn)
				return proxy.Trips() - before
			}
			for _, key := range []string{"warm", "warm", "warmer"} { // pgx describes a statement the first time
				run(key, with)
			}
			for _, c := range []struct {
				name, key string
				fn        func(context.Context) error
				want      int
			}{
				{"BEGIN, claim, proof, COMMIT", "a", none, 4},
				{"the same with one statement of the handler", "b", one, 5},
				{"and with one that has an argument", "d", with, argument},
				{"duplicate: BEGIN, claim, look, ROLLBACK", "a", none, 4},
				{"failed: BEGIN, claim, ROLLBACK", "c", failing, 3},
			} {
				if got := run(c.key, c.fn); got != c.want {
					t.Errorf("%s: %d round trips, want %d", c.name, got, c.want)
				}
			}
		})
	}
}
