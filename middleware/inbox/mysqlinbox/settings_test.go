package mysqlinbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/mysqlinbox"
)

// A server that may forget a commit after a crash is refused, unless that was
// accepted by name.
func TestDurability(t *testing.T) {
	testservices.MariaDB(t)
	server := testservices.Start(t, "mariadb")
	db := openDB(t, server.NewDatabase())
	if err := mysqlinbox.Migrate(t.Context(), db, mysqlinbox.Config{}); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"0", "2", "1", "3"} {
		exec(t, db, "SET GLOBAL innodb_flush_log_at_trx_commit = "+value)
		refused := value == "0" || value == "2"
		_, err := mysqlinbox.Open(t.Context(), db, mysqlinbox.Config{})
		if (err != nil) != refused || refused && (inbox.ClassOf(err) != inbox.ClassConfig || !strings.Contains(err.Error(), "SET GLOBAL innodb_flush_log_at_trx_commit = 1, or set AllowLossOnCrash")) {
			t.Errorf("innodb_flush_log_at_trx_commit %s: %v", value, err)
		}
		if _, err := mysqlinbox.Open(t.Context(), db, mysqlinbox.Config{AllowLossOnCrash: true}); err != nil {
			t.Errorf("innodb_flush_log_at_trx_commit %s, allowed: %v", value, err)
		}
	}
}

// A server that turns read-only under way, as at a failover, holds the delivery:
// the handler is not called, and work goes on when it takes writes again. Open
// says so too.
func TestReadOnlyServer(t *testing.T) {
	testservices.MariaDB(t)
	server := testservices.Start(t, "mariadb")
	for _, v := range variants[:4] {
		t.Run(v.name, func(t *testing.T) {
			direct := server.NewDatabase()
			admin := openDB(t, direct)
			if err := mysqlinbox.Migrate(t.Context(), admin, v.config); err != nil {
				t.Fatal(err)
			}
			dsn, user := plainUser(t, admin, direct)
			exec(t, admin, "GRANT SELECT, INSERT, UPDATE, DELETE ON *.* TO "+user)
			box, _ := v.open(t, dsn, v.config)
			register(t, box)
			exec(t, admin, "SET GLOBAL read_only = 1")
			out, err := box.Do(t.Context(), claim("k"), never(t))
			if out != inbox.Failed || inbox.ClassOf(err) != inbox.ClassDown {
				t.Errorf("%s, class %s, %v", out, inbox.ClassOf(err), err)
			}
			if _, err := mysqlinbox.Open(t.Context(), openDB(t, dsn), v.config); inbox.ClassOf(err) != inbox.ClassDown || !strings.Contains(err.Error(), "primary") {
				t.Errorf("open: %v", err)
			}
			exec(t, admin, "SET GLOBAL read_only = 0")
			// It turns read-only between the claim and the commit.
			out, err = box.Do(t.Context(), claim("k"), func(context.Context) error {
				done := make(chan struct{})
				go func() {
					defer close(done)
					exec(t, openDB(t, direct), "SET GLOBAL read_only = 1")
				}()
				<-done
				return nil
			})
			if out != inbox.Failed || inbox.ClassOf(err) != inbox.ClassDown && inbox.ClassOf(err) != inbox.ClassUnknown {
				t.Errorf("at the commit: %s, class %s, %v", out, inbox.ClassOf(err), err)
			}
			exec(t, admin, "SET GLOBAL read_only = 0")
			if out, err := box.Do(t.Context(), claim("k"), func(context.Context) error { return nil }); out != inbox.Processed {
				t.Errorf("afterwards: %s, %v", out, err)
			}
		})
	}
}

// Settings of the session with which an inbox cannot work are refused.
func TestSessionSettings(t *testing.T) {
	direct := testservices.NewMariaDBDatabase(t)
	if err := mysqlinbox.Migrate(t.Context(), openDB(t, direct), mysqlinbox.Config{}); err != nil {
		t.Fatal(err)
	}
	for want, params := range map[string]map[string]string{
		"completion_type is CHAIN":    {"completion_type": "1"},
		"transactions are read-only":  {"tx_read_only": "1"},
		"character_set_client is gbk": {"character_set_client": "gbk"},
	} {
		c, err := mysql.ParseDSN(direct)
		if err != nil {
			t.Fatal("parse the server's name")
		}
		c.Params = params
		_, err = mysqlinbox.Open(t.Context(), openDB(t, c.FormatDSN()), mysqlinbox.Config{})
		if inbox.ClassOf(err) != inbox.ClassConfig || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", params, err)
		}
	}
}

// Times and ages are the server's, in every time zone of session and driver, with
// times parsed or not.
func TestTimeZones(t *testing.T) {
	direct := testservices.NewMariaDBDatabase(t)
	admin := openDB(t, direct)
	if err := mysqlinbox.Migrate(t.Context(), admin, mysqlinbox.Config{}); err != nil {
		t.Fatal(err)
	}
	var horizon time.Time
	for _, zone := range []string{"'+00:00'", "'+13:00'", "'-12:00'"} {
		for _, place := range []string{"UTC", "Asia/Tokyo", "America/Los_Angeles"} {
			for _, parse := range []bool{false, true} {
				for _, plain := range []bool{false, true} {
					loc, err := time.LoadLocation(place)
					if err != nil {
						t.Fatal(err)
					}
					name := strings.Join([]string{zone, place, map[bool]string{true: "parsed"}[parse], map[bool]string{true: "plain"}[plain]}, " ")
					v := variant{plain: plain, dsn: func(c *mysql.Config) {
						c.Loc, c.ParseTime, c.Params = loc, parse, map[string]string{"time_zone": zone}
					}}
					box, _ := v.open(t, direct, mysqlinbox.Config{})
					register(t, box)
					if out, err := box.Do(t.Context(), claim(name), func(context.Context) error { return nil }); out != inbox.Processed {
						t.Fatalf("%s: %s, %v", name, out, err)
					}
					recs, err := box.Lookup(t.Context(), claim(name))
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					r := recs[0]
					if time.Since(r.ProcessedAt).Abs() > time.Minute || r.Age > time.Minute || time.Since(r.Horizon).Abs() > time.Minute {
						t.Errorf("%s: processed %s, age %s, horizon %s", name, r.ProcessedAt, r.Age, r.Horizon)
					}
					if horizon.IsZero() {
						horizon = r.Horizon
					}
					if !r.Horizon.Equal(horizon) {
						t.Errorf("%s: horizon %s, before %s", name, r.Horizon, horizon)
					}
				}
			}
		}
	}
}

// A failed run knows when it held its claim, by the server's clock, at no trip of
// its own.
func TestClaimedAt(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			box, _, _ := stock(t, v, v.config)
			_, err := box.Do(t.Context(), claim("k"), func(context.Context) error { return context.DeadlineExceeded })
			var e *inbox.Error
			if !errors.As(err, &e) || time.Since(e.ClaimedAt).Abs() > time.Minute {
				t.Errorf("error %v, claimed at %s", err, e.ClaimedAt)
			}
		})
	}
}
