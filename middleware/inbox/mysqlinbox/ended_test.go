package mysqlinbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/mysqlinbox"
)

// stock opens a database with a table that handlers write to.
func stock(t *testing.T, v variant, c mysqlinbox.Config) (box *inbox.Inbox, db *sql.DB, dsn string) {
	t.Helper()
	dsn = testservices.NewMariaDBDatabase(t)
	db = openDB(t, dsn)
	if err := mysqlinbox.Migrate(t.Context(), db, c); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "CREATE TABLE stock (item INT NOT NULL PRIMARY KEY, n INT NOT NULL)", "INSERT INTO stock VALUES (1, 0), (2, 0), (3, 0)",
		"CREATE TABLE scratch (a INT)")
	box, _ = v.open(t, dsn, c)
	register(t, box)
	return box, db, dsn
}

func register(t *testing.T, box *inbox.Inbox) {
	t.Helper()
	if err := box.Register(t.Context(), inbox.Consumer{Name: "stock"}); err != nil {
		t.Fatal(err)
	}
}

func claim(key string) inbox.Claim { return inbox.Claim{Consumer: "stock", Key: key} }

func add(ctx context.Context, item int) error {
	tx, err := inbox.Tx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf("UPDATE stock SET n = n + 1 WHERE item = %d", item))
	return err
}

func raw(ctx context.Context, statements ...string) error {
	tx, err := inbox.SQLTx(ctx)
	for _, s := range statements {
		if err == nil {
			_, err = tx.ExecContext(ctx, s)
		}
	}
	return err
}

func exec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, err := db.ExecContext(ctx, s)
		cancel()
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func count(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// Statements that commit on the way, past the guard, are found out before the
// commit and before the rollback: the claim is split, and what the handler wrote
// afterwards is undone.
func TestImplicitCommits(t *testing.T) {
	for _, v := range variants[:4] {
		t.Run(v.name, func(t *testing.T) {
			box, db, _ := stock(t, v, v.config)
			exec(t, db, "CREATE PROCEDURE commits() COMMIT")
			for i, statement := range []string{
				"CREATE TABLE more (a INT)", "TRUNCATE TABLE scratch", "ALTER TABLE scratch ADD b INT", "LOCK TABLES stock WRITE, scratch WRITE", "SET autocommit = 1", "CALL commits()",
			} {
				for _, ret := range []error{nil, errors.New("no")} {
					key := fmt.Sprintf("%d-%v", i, ret == nil)
					out, err := box.Do(t.Context(), claim(key), func(ctx context.Context) error {
						if err := errors.Join(add(ctx, 1), raw(ctx, statement)); err != nil {
							t.Errorf("%s: %v", statement, err)
						}
						if i > 2 { // the session holds table locks, or commits each statement
							return ret
						}
						return errors.Join(add(ctx, 2), ret)
					})
					if out != inbox.Failed || !errors.Is(err, inbox.ErrSplit) || inbox.ClassOf(err) != inbox.ClassPermanent {
						t.Errorf("%s: %s, %v", statement, out, err)
					}
					if out, err := box.Do(t.Context(), claim(key), never(t)); out != inbox.Conflict || !errors.Is(err, inbox.ErrSplit) {
						t.Errorf("%s: a later copy: %s, %v", statement, out, err)
					}
					exec(t, db, "DROP TABLE IF EXISTS more", "ALTER TABLE scratch DROP COLUMN IF EXISTS b")
				}
			}
			if n := count(t, db, "SELECT n FROM stock WHERE item = 2"); n != 0 {
				t.Errorf("%d writes after the end of the transaction stayed", n)
			}
		})
	}
}

// A procedure that commits is called through the guard: its text does not tell,
// the proof does.
func TestProcedureThatCommits(t *testing.T) {
	box, db, _ := stock(t, variant{}, mysqlinbox.Config{})
	exec(t, db, "CREATE PROCEDURE commits() COMMIT", "CREATE PROCEDURE adds() UPDATE stock SET n = n + 1 WHERE item = 1")
	call := func(name string, ret error) func(context.Context) error {
		return func(ctx context.Context) error {
			tx, err := inbox.Tx(ctx)
			if err == nil {
				_, err = tx.ExecContext(ctx, "CALL "+name+"()")
			}
			return errors.Join(err, ret)
		}
	}
	no := errors.New("no")
	for _, ret := range []error{nil, no} {
		if out, err := box.Do(t.Context(), claim(fmt.Sprint("commits", ret)), call("commits", ret)); !errors.Is(err, inbox.ErrSplit) {
			t.Errorf("returns %v: %s, %v", ret, out, err)
		}
	}
	if out, err := box.Do(t.Context(), claim("adds"), call("adds", no)); !errors.Is(err, no) || errors.Is(err, inbox.ErrSplit) {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := box.Do(t.Context(), claim("adds"), call("adds", nil)); out != inbox.Processed {
		t.Errorf("%s, %v", out, err)
	}
	if n := count(t, db, "SELECT n FROM stock WHERE item = 1"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// Temporary tables are the handler's own business, and USE does not lead the
// next claim into another database.
func TestHarmlessStatements(t *testing.T) {
	box, db, _ := stock(t, variant{}, mysqlinbox.Config{})
	other := testservices.Name(t)
	exec(t, db, "CREATE DATABASE "+other)
	t.Cleanup(func() { exec(t, openDB(t, testservices.MariaDB(t)), "DROP DATABASE "+other) })
	for _, key := range []string{"a", "b"} {
		out, err := box.Do(t.Context(), claim(key), func(ctx context.Context) error {
			tx, err := inbox.Tx(ctx)
			if err != nil {
				return err
			}
			for _, s := range []string{
				"CREATE TEMPORARY TABLE mine (a INT)", "INSERT INTO mine VALUES (1)", "DROP TEMPORARY TABLE mine",
				"SET @x = 1", "DO 1", "ANALYZE SELECT 1", "USE " + other,
			} {
				if _, err := tx.ExecContext(ctx, s); err != nil {
					return fmt.Errorf("%s: %w", s, err)
				}
			}
			return nil
		})
		if out != inbox.Processed {
			t.Errorf("%s: %s, %v", key, out, err)
		}
	}
	if n := count(t, db, "SELECT count(*) FROM processed_messages"); n != 2 {
		t.Errorf("%d claims", n)
	}
}

func never(t *testing.T) func(context.Context) error {
	return func(context.Context) error {
		t.Error("the handler was called")
		return nil
	}
}
