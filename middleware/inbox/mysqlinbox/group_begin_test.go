package mysqlinbox_test

import (
	"context"
	"database/sql"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/mysqlinbox"
)

// A Begin func that panics does so for the messages that it was called for, each on
// the goroutine of its Do, and never takes the process down.
func TestGroupWhoseBeginPanics(t *testing.T) {
	db := openDB(t, testservices.NewMariaDBDatabase(t))
	if err := mysqlinbox.Migrate(t.Context(), db, mysqlinbox.Config{}); err != nil {
		t.Fatal(err)
	}
	var broken atomic.Bool
	box, err := mysqlinbox.Open(t.Context(), db, mysqlinbox.Config{
		Config: inbox.Config{Group: 8, Tenant: func(context.Context) string { return "" }},
		Begin: func(ctx context.Context, db *sql.DB) (*sql.Tx, error) {
			if broken.Load() {
				panic("no such tenant")
			}
			return db.BeginTx(ctx, nil)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	register(t, box)
	inside, gate := make(chan struct{}), make(chan struct{})
	do := func(key string, fn func(context.Context) error) <-chan any {
		c := make(chan any, 1)
		go func() {
			defer func() { c <- recover() }()
			if out, err := box.Do(t.Context(), claim(key), fn); out != inbox.Processed {
				t.Errorf("%s: %s, %v", key, out, err)
			}
		}()
		return c
	}
	first := do("first", func(context.Context) error { close(inside); <-gate; return nil })
	<-inside
	both := []<-chan any{do("a", never(t)), do("b", never(t))}
	for box.Waiting(claim("").Consumer) < len(both) {
		runtime.Gosched()
	}
	broken.Store(true)
	close(gate)
	if v := <-first; v != nil {
		t.Errorf("first: %v", v)
	}
	for _, c := range both {
		if v := <-c; v != "no such tenant" {
			t.Errorf("panic %v", v)
		}
	}
	broken.Store(false)
	if v := <-do("a", func(context.Context) error { return nil }); v != nil {
		t.Errorf("again: %v", v)
	}
}
