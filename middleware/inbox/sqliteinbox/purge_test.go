package sqliteinbox_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/sqliteinbox"
)

// An adopted table keeps its times as text, of SQLite or of a driver in another
// zone: a purge reads both as the moments that they are, and leaves what it cannot
// read.
func TestPurgeOfTimesAsText(t *testing.T) {
	t.Parallel()
	db := open(t, sqliteinbox.DSN(filepath.Join(t.TempDir(), "a.db")))
	exec(t, db, plainTable)
	if err := sqliteinbox.Migrate(t.Context(), db, sqliteinbox.Config{}); err != nil {
		t.Fatal(err)
	}
	box := inboxOn(t, db, inbox.Config{Service: "s"}, 0)
	if err := box.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	at := func(key, expression string) {
		exec(t, db, "INSERT INTO processed_messages (consumer_name, message_key, processed_at) VALUES ('c', '"+key+"', "+expression+")")
	}
	at("old", "datetime('now', '-70 minutes')")
	at("young", "datetime('now', '-50 minutes')")
	// The same moments as a clock in Tokyo, or in Los Angeles, shows them.
	at("old-tokyo", "datetime('now', '-70 minutes', '+9 hours') || '+09:00'")
	at("young-tokyo", "datetime('now', '-50 minutes', '+9 hours') || '+09:00'")
	at("old-la", "strftime('%Y-%m-%dT%H:%M:%f', 'now', '-70 minutes', '-8 hours') || '-08:00'")
	at("young-la", "strftime('%Y-%m-%dT%H:%M:%f', 'now', '-50 minutes', '-8 hours') || '-08:00'")
	at("unreadable", "'2001-01-01 00:00:00 +0900 JST'")
	p, err := box.Purge(t.Context(), "c", inbox.PurgeOptions{Keep: time.Hour})
	if err != nil || p.Deleted != 3 || p.Looked != 7 {
		t.Errorf("purged %+v, %v", p, err)
	}
	for _, key := range []string{"young", "young-tokyo", "young-la", "unreadable"} {
		recs, err := box.Lookup(t.Context(), inbox.Claim{Consumer: "c", Key: key})
		if err != nil || !recs[0].Found {
			t.Errorf("%s is gone, %v", key, err)
		}
	}
}

// A purge takes one turn of the queue a step, so that handlers come in between.
func TestPurgeTakesTurns(t *testing.T) {
	t.Parallel()
	db := open(t, sqliteinbox.DSN(filepath.Join(t.TempDir(), "a.db")))
	if err := sqliteinbox.Migrate(t.Context(), db, sqliteinbox.Config{}); err != nil {
		t.Fatal(err)
	}
	box := inboxOn(t, db, inbox.Config{Service: "s"}, 0)
	if err := box.Register(t.Context(), inbox.Consumer{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 20000) INSERT INTO processed_messages SELECT 'c', printf('k%06d', n), 0, NULL FROM n")
	done := make(chan error, 1)
	stepped := make(chan struct{}, 1)
	go func() {
		p, err := box.Purge(t.Context(), "c", inbox.PurgeOptions{Keep: time.Hour, Batch: 500, Pause: -1, Progress: func(inbox.Purged) {
			select {
			case stepped <- struct{}{}:
			default:
			}
		}})
		if err == nil && p.Deleted != 20_000 {
			t.Errorf("purged %+v", p)
		}
		done <- err
	}()
	<-stepped
	between := 0
	for {
		if out, err := box.Do(t.Context(), inbox.Claim{Consumer: "c", Key: time.Now().Format(time.RFC3339Nano)}, func(context.Context) error { return nil }); out != inbox.Processed {
			t.Fatalf("%s, %v", out, err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			if between == 0 {
				t.Error("no handler ran during the purge")
			}
			return
		default:
			between++
		}
	}
}
