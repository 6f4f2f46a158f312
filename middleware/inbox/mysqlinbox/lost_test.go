package mysqlinbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// A statement that the server does not take for its size is the message's own
// fault, not an outage, and stops no other message. The driver must know the limit
// for that: without it the server may close the connection before it says why.
func TestStatementOverThePacketLimit(t *testing.T) {
	for name, v := range map[string]variant{
		"own":                     {own: true},
		"own, with a wrong limit": {own: true, dsn: func(c *mysql.Config) { c.MaxAllowedPacket = 20 << 20 }},
		"shared, limit asked":     {dsn: func(c *mysql.Config) { c.MaxAllowedPacket = 0 }},
		"shared":                  {},
	} {
		t.Run(name, func(t *testing.T) {
			box, db, _ := stock(t, v, v.config)
			exec(t, db, "CREATE TABLE bodies (b LONGBLOB NOT NULL)")
			limit := count(t, db, "SELECT @@max_allowed_packet")
			// A little too much is read to its end and answered with error 1153.
			body := strings.Repeat("x", limit+limit/64)
			insert := func(query string, args ...any) func(ctx context.Context) error {
				return func(ctx context.Context) error {
					tx, err := inbox.Tx(ctx)
					if err != nil {
						return err
					}
					_, err = tx.ExecContext(ctx, "INSERT INTO bodies VALUES ("+query+")", args...)
					return err
				}
			}
			for key, handler := range map[string]func(ctx context.Context) error{"argument": insert("?", body), "text": insert("'" + body + "'")} {
				out, err := box.Do(t.Context(), claim(key), handler)
				asked := name == "own" || name == "shared, limit asked"
				if c := inbox.ClassOf(err); out != inbox.Failed || c == inbox.ClassDown && asked || asked && key == "text" && c != inbox.ClassPermanent {
					t.Errorf("%s: %s, class %s: %v", key, out, c, err)
				}
				if out, err := box.Do(t.Context(), claim(key), insert("'x'")); out != inbox.Processed {
					t.Errorf("%s, a copy that fits: %s, %v", key, out, err)
				}
			}
			if n := count(t, db, "SELECT count(*) FROM bodies"); n != 2 {
				t.Errorf("%d effects, want 2", n)
			}
		})
	}
}

// A server that closes idle connections: those of the pool are replaced without a
// failed run; one that was idle in a handler is lost with its transaction.
func TestIdleConnectionsClosedByTheServer(t *testing.T) {
	for _, v := range variants[:2] {
		t.Run(v.name, func(t *testing.T) {
			v.dsn = func(c *mysql.Config) { c.Params = map[string]string{"wait_timeout": "1"} }
			box, db, _ := stock(t, v, v.config)
			const others = "SELECT count(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID()"
			closed := func() {
				for count(t, db, others) > 0 {
					exec(t, db, "DO SLEEP(0.1)")
				}
			}
			handler := func(ctx context.Context) error { return add(ctx, 1) }
			if out, err := box.Do(t.Context(), claim("a"), handler); out != inbox.Processed {
				t.Fatalf("%s, %v", out, err)
			}
			db.SetMaxOpenConns(1)
			closed()
			if out, err := box.Do(t.Context(), claim("b"), handler); out != inbox.Processed {
				t.Errorf("after the idle ones were closed: %s, %v", out, err)
			}
			for _, ret := range []error{nil, errors.New("no")} {
				out, err := box.Do(t.Context(), claim("c"), func(ctx context.Context) error {
					if err := add(ctx, 1); err != nil {
						return err
					}
					closed()
					return ret
				})
				if out != inbox.Failed || errors.Is(err, inbox.ErrSplit) {
					t.Errorf("closed in the handler: %s, %v", out, err)
				}
			}
			if out, err := box.Do(t.Context(), claim("c"), handler); out != inbox.Processed {
				t.Errorf("next copy: %s, %v", out, err)
			}
			if n := count(t, db, "SELECT n FROM stock WHERE item = 1"); n != 3 {
				t.Errorf("%d effects, want 3", n)
			}
		})
	}
}

// A handler that swallows a lock wait: where the server undid only the statement
// the rest is the handler's choice; where it undoes the whole transaction
// (innodb_rollback_on_timeout) nothing is committed, and nothing that was written
// afterwards stays.
func TestSwallowedLockWait(t *testing.T) {
	for _, v := range variants[:2] {
		for way, ask := range map[string]func(ctx context.Context) error{
			"guarded": func(ctx context.Context) error { return add(ctx, 2) }, "prepared": prepared,
			"raw": func(ctx context.Context) error { return raw(ctx, "UPDATE stock SET n = n + 1 WHERE item = 2") },
		} {
			t.Run(v.name+"/"+way, func(t *testing.T) {
				box, db, _ := stock(t, v, v.config)
				holder, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = holder.Rollback() }()
				if _, err := holder.ExecContext(t.Context(), "UPDATE stock SET n = n WHERE item = 2"); err != nil {
					t.Fatal(err)
				}
				out, err := box.Do(t.Context(), claim("k"), func(ctx context.Context) error {
					tx, err := inbox.Tx(ctx)
					if err != nil {
						return err
					}
					if _, err := tx.ExecContext(ctx, "SET innodb_lock_wait_timeout = 1"); err != nil {
						return err
					}
					if err := add(ctx, 1); err != nil {
						return err
					}
					var e *mysql.MySQLError
					if err := ask(ctx); !errors.As(err, &e) || e.Number != 1205 {
						t.Errorf("no lock wait: %v", err)
					}
					_ = add(ctx, 3)
					return nil
				})
				effects := count(t, db, "SELECT sum(n) FROM stock")
				if count(t, db, "SELECT @@innodb_rollback_on_timeout") == 0 {
					if out != inbox.Processed || effects != 2 {
						t.Errorf("%s with %d writes: %v", out, effects, err)
					}
					return
				}
				if out != inbox.Failed || effects != 0 {
					t.Errorf("%s with %d writes: %v", out, effects, err)
				}
				if out, err := box.Do(t.Context(), claim("k"), func(ctx context.Context) error { return add(ctx, 1) }); out != inbox.Processed {
					t.Errorf("next copy: %s, %v", out, err)
				}
			})
		}
	}
}

// A connection on which nothing can be written, as to a server that was demoted
// in a failover, is not used again: the next one may lead to the new primary.
func TestReadOnlyConnectionIsGivenUp(t *testing.T) {
	for _, v := range variants[:4] {
		t.Run(v.name, func(t *testing.T) {
			_, db, dsn := stock(t, v, v.config)
			box, pool := v.open(t, dsn, v.config)
			pool.SetMaxOpenConns(1)
			register(t, box)
			out, err := box.Do(t.Context(), claim("a"), func(ctx context.Context) error {
				tx, err := inbox.Tx(ctx)
				if err != nil {
					return err
				}
				_, err = tx.ExecContext(ctx, "SET SESSION TRANSACTION READ ONLY")
				return err
			})
			if out != inbox.Processed {
				t.Fatalf("%s, %v", out, err)
			}
			handler := func(ctx context.Context) error { return add(ctx, 1) }
			if out, err := box.Do(t.Context(), claim("b"), handler); out != inbox.Failed || inbox.ClassOf(err) != inbox.ClassDown {
				t.Errorf("on the read-only connection: %s, class %s: %v", out, inbox.ClassOf(err), err)
			}
			if out, err := box.Do(t.Context(), claim("b"), handler); out != inbox.Processed {
				t.Errorf("afterwards: %s, %v", out, err)
			}
			if n := count(t, db, "SELECT n FROM stock WHERE item = 1"); n != 1 {
				t.Errorf("%d effects, want 1", n)
			}
		})
	}
}
