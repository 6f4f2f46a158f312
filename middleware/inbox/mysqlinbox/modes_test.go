package mysqlinbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Every SQL mode gives the same outcomes: none changes what our statements mean.
func TestSQLModes(t *testing.T) {
	for _, mode := range []string{
		"", "ANSI", "TRADITIONAL", "ORACLE", "MSSQL", "EMPTY_STRING_IS_NULL", "PAD_CHAR_TO_FULL_LENGTH",
		"NO_BACKSLASH_ESCAPES,IGNORE_SPACE,HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION,TIME_ROUND_FRACTIONAL",
	} {
		for _, v := range variants[:4] {
			t.Run(mode+"/"+v.name, func(t *testing.T) {
				v.dsn = func(c *mysql.Config) { c.Params = map[string]string{"sql_mode": "'" + mode + "'"} }
				box, db, _ := stock(t, v, v.config)
				no := errors.New("no")
				// "a" is x'61', which is x'61 20' to modes and columns that pad.
				for _, run := range []struct {
					key, fingerprint string
					handler          error
					want             inbox.Outcome
				}{
					{"a", "\x01\x00", nil, inbox.Processed},
					{"a", "\x01\x00", nil, inbox.Duplicate},
					{"a", "\x01\x01", nil, inbox.Conflict},
					{"a ", "\x01\x00", nil, inbox.Processed},
					{"A", "\x01\x00", no, inbox.Failed},
					{"A", "\x01\x00", nil, inbox.Processed},
					{`\`, "\x01\x00", nil, inbox.Processed},
				} {
					c := claim(run.key)
					c.Fingerprint = []byte(run.fingerprint)
					out, err := box.Do(t.Context(), c, func(ctx context.Context) error { return errors.Join(add(ctx, 1), run.handler) })
					if out != run.want {
						t.Errorf("%q: %s, want %s: %v", run.key, out, run.want, err)
					}
				}
				for key, ret := range map[string]error{"split": nil, "split and failed": no} {
					out, err := box.Do(t.Context(), claim(key), func(ctx context.Context) error { return errors.Join(raw(ctx, "COMMIT"), ret) })
					if !errors.Is(err, inbox.ErrSplit) {
						t.Errorf("%s: %s, %v", key, out, err)
					}
				}
				if n := count(t, db, "SELECT n FROM stock WHERE item = 1"); n != 4 {
					t.Errorf("%d effects, want 4", n)
				}
			})
		}
	}
}

// MariaDB runs compound statements outside of procedures. One that commits is
// refused or found out, whether its handler fails or not: no later copy is taken
// for a duplicate.
func TestCompoundStatements(t *testing.T) {
	for _, v := range variants[:4] {
		t.Run(v.name, func(t *testing.T) {
			box, _, _ := stock(t, v, v.config)
			for _, statement := range []string{
				"REPEAT COMMIT; UNTIL 1 END REPEAT", "repeat /**/ COMMIT; until 1 end repeat", "BEGIN NOT ATOMIC COMMIT; END", "IF 1 THEN COMMIT; END IF",
				"CASE 1 WHEN 1 THEN COMMIT; END CASE", "WHILE 1 DO COMMIT; END WHILE", "FOR i IN 1..1 DO COMMIT; END FOR",
			} {
				for how, ret := range map[string]error{"failed": errors.New("no"), "not failed": nil} {
					key := statement + how
					out, err := box.Do(t.Context(), claim(key), func(ctx context.Context) error {
						tx, err := inbox.Tx(ctx)
						if err != nil {
							return err
						}
						_, err = tx.ExecContext(ctx, statement)
						if ret != nil {
							return errors.Join(err, ret)
						}
						return nil
					})
					if out != inbox.Failed || err == nil {
						t.Errorf("%s: %s, %v", key, out, err)
					}
					split := errors.Is(err, inbox.ErrSplit)
					if strings.HasPrefix(strings.ToUpper(statement), "REPEAT") != split {
						t.Errorf("%s: split is %t: %v", key, split, err)
					}
					want := inbox.Processed
					if split {
						want = inbox.Conflict
					}
					if out, err := box.Do(t.Context(), claim(key), func(context.Context) error { return nil }); out != want {
						t.Errorf("%s, a later copy: %s, want %s: %v", key, out, want, err)
					}
				}
			}
		})
	}
}
