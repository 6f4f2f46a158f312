package mysqlinbox_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/mysqlinbox"
)

// On an adopted table that cannot bear the mark of a split claim, a handler that
// ends the transaction of its group keeps nobody else from being processed.
func TestGroupOnAPlainTableThatAHandlerEnds(t *testing.T) {
	dsn := testservices.NewMariaDBDatabase(t)
	db := openDB(t, dsn)
	exec(t, db, plainTable, "CREATE TABLE ran (name VARCHAR(10)) ENGINE = InnoDB")
	if err := mysqlinbox.Migrate(t.Context(), db, mysqlinbox.Config{}); err != nil {
		t.Fatal(err)
	}
	box, err := mysqlinbox.Open(t.Context(), db, mysqlinbox.Config{Config: inbox.Config{Group: 8}})
	if err != nil {
		t.Fatal(err)
	}
	register(t, box)
	type result struct {
		out inbox.Outcome
		err error
	}
	do := func(key string, fn func(ctx context.Context) error) <-chan result {
		c := make(chan result, 1)
		go func() {
			out, err := box.Do(t.Context(), claim(key), fn)
			c <- result{out, err}
		}()
		return c
	}
	run := func(key, statement string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			tx, err := inbox.Tx(ctx)
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, "INSERT INTO ran VALUES ('"+key+"')")
			if err == nil && statement != "" {
				_, err = tx.ExecContext(ctx, statement)
			}
			return err
		}
	}
	inside, gate := make(chan struct{}), make(chan struct{})
	first := do("first", func(context.Context) error { close(inside); <-gate; return nil })
	<-inside
	var results []<-chan result
	for _, m := range [][2]string{{"before", ""}, {"ends", "EXECUTE IMMEDIATE 'COMMIT'"}, {"after", ""}} {
		results = append(results, do(m[0], run(m[0], m[1])))
		for box.Waiting(claim("").Consumer) < len(results) {
			runtime.Gosched()
		}
	}
	close(gate)
	<-first
	if r := <-results[0]; inbox.ClassOf(r.err) != inbox.ClassUnknown {
		t.Errorf("before: %s, %v", r.out, r.err)
	}
	if r := <-results[1]; !errors.Is(r.err, inbox.ErrSplit) {
		t.Errorf("ends: %s, %v", r.out, r.err)
	}
	if r := <-results[2]; r.out != inbox.Processed {
		t.Errorf("after: %s, %v", r.out, r.err)
	}
	if out, err := box.Do(t.Context(), claim("before"), never(t)); out != inbox.Duplicate {
		t.Errorf("before, again: %s, %v", out, err)
	}
	var n int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM ran").Scan(&n); err != nil || n != 3 {
		t.Errorf("%d handlers' writes, %v", n, err)
	}
}

// A handler whose text cannot be judged and that goes on after a refusal ended
// nothing: it fails by itself, in the second run of a group, too.
func TestGroupWithAnUnjudgedRefusal(t *testing.T) {
	for _, v := range variants[:2] {
		t.Run(v.name, func(t *testing.T) {
			dsn := testservices.NewMariaDBDatabase(t)
			db := openDB(t, dsn)
			if err := mysqlinbox.Migrate(t.Context(), db, mysqlinbox.Config{}); err != nil {
				t.Fatal(err)
			}
			box, _ := v.open(t, dsn, mysqlinbox.Config{Config: inbox.Config{Group: 8}})
			register(t, box)
			bad := func(ctx context.Context) error {
				tx, err := inbox.Tx(ctx)
				if err != nil {
					return err
				}
				_, err = tx.ExecContext(ctx, "EXECUTE IMMEDIATE 'DO 1'")
				_, _ = tx.ExecContext(ctx, "COMMIT")
				return err
			}
			inside, gate := make(chan struct{}), make(chan struct{})
			results := make([]chan error, 4)
			for i, fn := range []func(ctx context.Context) error{func(context.Context) error { close(inside); <-gate; return nil }, bad, bad, func(context.Context) error { return nil }} {
				results[i] = make(chan error, 1)
				go func() {
					_, err := box.Do(t.Context(), claim(string(rune('a'+i))), fn)
					results[i] <- err
				}()
				<-inside
				for box.Waiting(claim("").Consumer) < i {
					runtime.Gosched()
				}
			}
			close(gate)
			for i, c := range results {
				err := <-c
				_, swallowed := errors.AsType[*inbox.SwallowedError](err)
				if want := i == 1 || i == 2; swallowed != want || errors.Is(err, inbox.ErrSplit) || !want && err != nil {
					t.Errorf("%d: %v", i, err)
				}
			}
		})
	}
}
