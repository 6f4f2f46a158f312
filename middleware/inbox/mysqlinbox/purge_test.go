package mysqlinbox_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/mysqlinbox"
)

// Also where a table is large, so that the optimizer has something to choose, a
// step of a purge locks the rows that it deletes and none beside them: claims of
// new keys between go through while its transaction is open, and an open claim
// does not hold it up.
func TestPurgeOfALargeTableLocksItsRowsOnly(t *testing.T) {
	for _, v := range variants[:4] {
		t.Run(v.name, func(t *testing.T) {
			box, db, dsn := stock(t, v, v.config)
			exec(t, db, "INSERT INTO processed_messages (consumer_name, message_key, processed_at) SELECT 'stock', CONCAT('k', LPAD(seq, 6, '0')), UTC_TIMESTAMP(6) - INTERVAL seq MOD 2 * 48 HOUR FROM seq_1_to_20000",
				"INSERT INTO processed_messages (consumer_name, message_key, processed_at) SELECT 'other', CONCAT('k', LPAD(seq, 6, '0')), UTC_TIMESTAMP(6) - INTERVAL 48 HOUR FROM seq_1_to_20000",
				"ANALYZE TABLE processed_messages")
			config := v.config
			config.LockWait = time.Second
			short, _ := v.open(t, dsn, config)
			register(t, short)
			purged := make(chan inbox.Purged, 1)
			out, err := box.Do(t.Context(), claim("k000500-open"), func(ctx context.Context) error {
				tx, err := inbox.Tx(ctx)
				if err != nil {
					return err
				}
				if _, err := tx.ExecContext(ctx, "SELECT 1 FROM processed_messages WHERE consumer_name = 'stock' AND message_key = 'k000999' FOR UPDATE"); err != nil {
					return err
				}
				go func() {
					p, err := short.Purge(context.WithoutCancel(t.Context()), "stock", inbox.PurgeOptions{Keep: 24 * time.Hour, Pause: -1})
					if err != nil {
						t.Errorf("purge: %v", err)
					}
					purged <- p
				}()
				for waiting := false; !waiting; {
					if waiting, err = isWaiting(ctx, db); err != nil {
						return err
					}
				}
				for _, key := range []string{"a", "k000001-new", "k000500-new", "k000998-new", "k015000-new", "z"} {
					if out, err := short.Do(t.Context(), claim(key), func(context.Context) error { return nil }); out != inbox.Processed {
						t.Errorf("claim %q beside the open purge: %s, %v", key, out, err)
					}
				}
				return nil
			})
			if out != inbox.Processed {
				t.Fatalf("%s, %v", out, err)
			}
			select {
			case p := <-purged:
				if p.Deleted != 10_000 || p.Looked < 20_000 {
					t.Errorf("purged %+v", p)
				}
			case <-time.After(patience):
				t.Fatal("the purge did not end")
			}
			if n := count(t, db, "SELECT count(*) FROM processed_messages WHERE consumer_name = 'other'"); n != 20_000 {
				t.Errorf("%d claims of the other consumer are left", n)
			}
		})
	}
}

// A purge compares times by the server's clock alone: whatever the zone of the
// session, of the driver and of the process, what is 50 min old stays and what is
// 70 min old goes. Tables that are adopted with a TIMESTAMP are as exact; one with
// the local time of its sessions is purged late, never early.
func TestPurgeInEveryTimeZone(t *testing.T) {
	const timestamp = "CREATE TABLE processed_messages (consumer_name VARBINARY(100) NOT NULL, message_key VARBINARY(200) NOT NULL, processed_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), PRIMARY KEY (consumer_name, message_key)) ENGINE = InnoDB"
	local := strings.Replace(timestamp, "TIMESTAMP(6) NOT", "DATETIME(6) NOT", 1)
	for _, zone := range []struct{ name, offset string }{{"UTC", "+00:00"}, {"Asia/Tokyo", "+09:00"}, {"America/Los_Angeles", "-08:00"}} {
		for _, c := range []struct {
			name, table, now string
			ages             map[string]int // minutes
			left             string
		}{
			{"ours", "", "UTC_TIMESTAMP(6)", map[string]int{"k50": 50, "k70": 70}, "k50"},
			{"timestamp", timestamp, "CURRENT_TIMESTAMP(6)", map[string]int{"k50": 50, "k70": 70}, "k50"},
			{"local", local, "CURRENT_TIMESTAMP(6)", map[string]int{"k50": 50, "k3000": 3000}, "k50"},
		} {
			t.Run(c.name+"/"+zone.name, func(t *testing.T) {
				location, err := time.LoadLocation(zone.name)
				if err != nil {
					t.Fatal(err)
				}
				v := variant{dsn: func(m *mysql.Config) {
					m.Loc, m.ParseTime = location, true
					m.Params = map[string]string{"time_zone": "'" + zone.offset + "'"}
				}}
				dsn := v.source(t, testservices.NewMariaDBDatabase(t), mysqlinbox.Config{})
				db := openDB(t, dsn)
				if c.table != "" {
					exec(t, db, c.table)
				}
				if err := mysqlinbox.Migrate(t.Context(), db, mysqlinbox.Config{}); err != nil {
					t.Fatal(err)
				}
				var log bytes.Buffer
				box, err := mysqlinbox.Open(t.Context(), db, mysqlinbox.Config{Config: inbox.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
				if err != nil {
					t.Fatal(err)
				}
				register(t, box)
				for key, age := range c.ages {
					exec(t, db, fmt.Sprintf("INSERT INTO processed_messages (consumer_name, message_key, processed_at) VALUES ('stock', '%s', %s - INTERVAL %d MINUTE)", key, c.now, age))
				}
				p, err := box.Purge(t.Context(), "stock", inbox.PurgeOptions{Keep: time.Hour})
				if err != nil || p.Deleted != 1 {
					t.Errorf("purged %+v, %v", p, err)
				}
				if n := count(t, db, "SELECT count(*) FROM processed_messages WHERE message_key = '"+c.left+"'"); n != 1 {
					t.Errorf("%s is gone", c.left)
				}
				if age := time.Since(p.Cutoff); age < time.Hour-time.Minute || age > time.Hour+time.Minute {
					t.Errorf("cut-off %s is %s ago", p.Cutoff, age)
				}
			})
		}
	}
}
