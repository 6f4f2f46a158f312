package handlers

import (
	"context"
	"database/sql"
	_ "embed"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pgxinbox"
)

//go:embed schema.sql
var schema string

// service is one of the files of this package, opened.
type service struct {
	box     *inbox.Inbox
	handle  func(context.Context, Order) error
	outside []message.HandlerMiddleware // of the stack
	gifts   bool
}

var services = map[string]func(t *testing.T, db *sql.DB, url string, c inbox.Config) service{
	"sqlc": func(t *testing.T, db *sql.DB, _ string, c inbox.Config) service {
		return service{box: open(t, db, pginbox.Config{Config: c}), handle: SQLC}
	},
	"sqlx": func(t *testing.T, db *sql.DB, _ string, c inbox.Config) service {
		return service{box: open(t, db, pginbox.Config{Config: c}), handle: SQLX}
	},
	"sqlx.Tx": func(t *testing.T, db *sql.DB, _ string, c inbox.Config) service {
		begin := BeginSQLX(sqlx.NewDb(db, "postgres"))
		return service{
			box: open(t, db, pginbox.Config{Config: c, Begin: begin}), handle: SQLXTx,
			outside: []message.HandlerMiddleware{SQLXMiddleware},
		}
	},
	"gorm": func(t *testing.T, db *sql.DB, _ string, c inbox.Config) service {
		g, err := NewGORM(db)
		if err != nil {
			t.Fatal(err)
		}
		return service{box: open(t, db, pginbox.Config{Config: c}), handle: g.Handle, gifts: true}
	},
	"bun": func(t *testing.T, db *sql.DB, _ string, c inbox.Config) service {
		return service{box: open(t, db, pginbox.Config{Config: c}), handle: NewBun(db).Handle}
	},
	"pgx": func(t *testing.T, _ *sql.DB, url string, c inbox.Config) service {
		pool, err := pgxpool.New(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		box, err := pgxinbox.Open(t.Context(), pool, pgxinbox.Config{Config: c})
		if err != nil {
			t.Fatal(err)
		}
		return service{box: box, handle: PGX, gifts: true}
	},
}

func open(t *testing.T, db *sql.DB, c pginbox.Config) *inbox.Inbox {
	t.Helper()
	box, err := pginbox.Open(t.Context(), db, c)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// newDatabase has the inbox's tables and the shop's.
func newDatabase(t *testing.T) (*sql.DB, string) {
	t.Helper()
	url := testservices.NewPostgresDatabase(t)
	db, err := sql.Open("postgres", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxIdleConns(instances)
	if err := pginbox.Migrate(t.Context(), db, pginbox.Config{}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	return db, url
}

func TestEveryOrderTakesEffectOnce(t *testing.T) {
	testservices.Postgres(t)
	for name, start := range services {
		t.Run(name, func(t *testing.T) {
			db, url := newDatabase(t)
			tell := &telling{db: db}
			s := start(t, db, url, tell.config())
			tell.story(t, s)
			tell.books(t, s.gifts)
		})
	}
}

// A handler outside of a claim must not write to the pool in silence.
func TestWithoutClaimNothingIsWritten(t *testing.T) {
	testservices.Postgres(t)
	for name, start := range services {
		t.Run(name, func(t *testing.T) {
			db, url := newDatabase(t)
			s := start(t, db, url, inbox.Config{})
			err := s.handle(t.Context(), Order{ID: 1, Item: "lamp"})
			if inbox.ClassOf(err) != inbox.ClassConfig {
				t.Errorf("got %v", err)
			}
			var sales int
			if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM sales").Scan(&sales); err != nil || sales != 0 {
				t.Errorf("%d sales, %v", sales, err)
			}
		})
	}
}

// Without the middleware there is no place for the *sqlx.Tx.
func TestSQLXMiddlewareIsMissed(t *testing.T) {
	testservices.Postgres(t)
	db, _ := newDatabase(t)
	box := open(t, db, pginbox.Config{Begin: BeginSQLX(sqlx.NewDb(db, "postgres"))})
	if err := box.Register(t.Context(), inbox.Consumer{Name: "sales"}); err != nil {
		t.Fatal(err)
	}
	_, err := box.Do(t.Context(), inbox.Claim{Consumer: "sales", Key: "k"}, func(ctx context.Context) error {
		return SQLXTx(ctx, Order{ID: 1, Item: "lamp"})
	})
	if inbox.ClassOf(err) != inbox.ClassConfig {
		t.Errorf("got %v", err)
	}
}
