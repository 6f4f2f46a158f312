package mysqlinbox_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/mysqlinbox"
)

// Errors are classed by number, wrapped or not.
func TestClasses(t *testing.T) {
	db := openDB(t, testservices.NewMariaDBDatabase(t))
	if err := mysqlinbox.Migrate(t.Context(), db, mysqlinbox.Config{}); err != nil {
		t.Fatal(err)
	}
	box, err := mysqlinbox.Open(t.Context(), db, mysqlinbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error, want inbox.Class) {
		t.Helper()
		for _, err := range []error{err, fmt.Errorf("do it: %w", err), errors.Join(errors.New("x"), err)} {
			if got := box.Class(err); got != want {
				t.Errorf("%v: class %s, want %s", err, got, want)
			}
		}
	}
	for want, numbers := range map[inbox.Class][]uint16{
		inbox.ClassTransient: {1213, 1205, 1020, 1206, 3572, 3101},
		inbox.ClassDown:      {1040, 1203, 1226, 1053, 1290, 1836, 1792, 1927, 1047, 1021, 1114},
		inbox.ClassConfig:    {1044, 1045, 1049, 1142, 1146, 1054, 1227},
		inbox.ClassPermanent: {1264, 1265, 1366, 1406, 1048, 3819, 4025},
		inbox.ClassPlain:     {1062, 1451, 1452, 1064, 9999},
	} {
		for _, n := range numbers {
			check(&mysql.MySQLError{Number: n}, want)
		}
	}
	for state, want := range map[string]inbox.Class{"08S01": inbox.ClassDown, "22007": inbox.ClassPermanent, "40001": inbox.ClassTransient, "28000": inbox.ClassConfig, "HY000": inbox.ClassPlain} {
		check(&mysql.MySQLError{Number: 9999, SQLState: [5]byte([]byte(state))}, want)
	}
	check(mysql.ErrInvalidConn, inbox.ClassDown)
	check(driver.ErrBadConn, inbox.ClassDown)
	check(mysql.ErrBusyBuffer, inbox.ClassPlain)
	check(context.Canceled, inbox.ClassCancelled)

	// As the server sends them.
	exec(t, db, "CREATE TABLE parent (id INT PRIMARY KEY)", "CREATE TABLE child (id INT PRIMARY KEY, s VARCHAR(3) NOT NULL, n TINYINT CHECK (n < 100), p INT, FOREIGN KEY (p) REFERENCES parent (id))", "INSERT INTO child (id, s) VALUES (1, 'a')")
	for statement, want := range map[string]inbox.Class{
		"INSERT INTO child (id, s) VALUES (1, 'a')":                              inbox.ClassPlain,
		"INSERT INTO child (id, s, p) VALUES (2, 'a', 7)":                        inbox.ClassPlain,
		"INSERT INTO child (id, s) VALUES (2, NULL)":                             inbox.ClassPermanent,
		"INSERT INTO child (id, s) VALUES (2, 'long')":                           inbox.ClassPermanent,
		"INSERT INTO child (id, s, n) VALUES (2, 'a', 1000)":                     inbox.ClassPermanent,
		"INSERT INTO child (id, s, n) VALUES (2, 'a', 'abc')":                    inbox.ClassPermanent,
		"INSERT INTO child (id, s, n) VALUES (2, 'a', 100)":                      inbox.ClassPermanent,
		"INSERT INTO child (id, s) VALUES (2, x'ff')":                            inbox.ClassPermanent,
		"INSERT INTO nothing VALUES (1)":                                         inbox.ClassConfig,
		"SELECT nothing FROM child":                                              inbox.ClassConfig,
		"CALL nothing()":                                                         inbox.ClassConfig,
		"SELEKT 1":                                                               inbox.ClassPlain,
		"SET STATEMENT max_statement_time = 0.01 FOR DO 1":                       inbox.ClassPlain,
		"SET STATEMENT max_statement_time = 0.01 FOR SELECT SLEEP(1) FROM child": inbox.ClassTransient,
	} {
		_, err := db.ExecContext(t.Context(), statement)
		if err == nil {
			continue
		}
		check(err, want)
	}
}

// A handler that goes on while a result is unread breaks its connection: its own
// fault, an attempt, and not an outage. Nothing of it is committed.
func TestUnreadResult(t *testing.T) {
	box, db, _ := stock(t, variant{}, mysqlinbox.Config{})
	exec(t, db, "INSERT INTO scratch SELECT seq FROM seq_1_to_100000")
	for _, swallow := range []bool{false, true} {
		out, err := box.Do(t.Context(), claim("k"), func(ctx context.Context) error {
			tx, err := inbox.Tx(ctx)
			if err != nil {
				return err
			}
			rows, err := tx.QueryContext(ctx, "SELECT a FROM scratch")
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			if !rows.Next() {
				return rows.Err()
			}
			err = add(ctx, 1)
			if err == nil {
				t.Error("the driver took a statement while a result was open")
			}
			if swallow {
				return nil
			}
			return errors.Join(err, add(ctx, 1))
		})
		if out != inbox.Failed || inbox.ClassOf(err) != inbox.ClassPlain {
			t.Errorf("swallowed %v: %s, class %s, %v", swallow, out, inbox.ClassOf(err), err)
		}
	}
	if n := count(t, db, "SELECT count(*) FROM processed_messages"); n != 0 {
		t.Errorf("%d claims", n)
	}
}
