package dlq_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

func (r *rig) claimed(key string) bool {
	r.Helper()
	recs, err := r.box.Lookup(r.Context(), inbox.Claim{Consumer: queue, Key: key})
	r.must(err)
	return recs[0].Found
}

// A claim that an open letter needs must not go: its letter would run again.
func TestRetentionKeepsWhatOpenLettersNeed(t *testing.T) {
	eachDriver(t, func(r *rig) {
		needed := r.store(r.died("needed", "x"))
		closed := r.store(r.died("closed", "x"))
		for _, key := range []string{"needed", "closed", "plain"} {
			r.process(key, "x")
		}
		_, err := r.letters.Discard(r.Context(), dlq.Filter{IDs: []int64{closed.ID}}, note)
		r.must(err)
		r.exec(r.of.aged)

		waiting := dlq.RetainConfig{Uncollected: func(context.Context, inbox.Consumer) (int64, error) { return 7, nil }}
		got, err := r.letters.RetainOnce(r.Context(), waiting)
		r.must(err)
		if len(got.Kept) != 1 || !strings.Contains(got.Kept[0], "7 dead letters are not collected") || !r.claimed("plain") {
			r.Errorf("with uncollected letters: %+v", got)
		}

		got, err = r.letters.RetainOnce(r.Context(), dlq.RetainConfig{})
		r.must(err)
		if !r.claimed("needed") || r.claimed("closed") || r.claimed("plain") || got.Claims["main"][queue] != 2 || len(got.Kept) != 1 {
			r.Errorf("%+v, needed %v", got, r.claimed("needed"))
		}
		r.verdict(needed.ID, dlq.Processed, "same content")

		got, err = r.letters.RetainOnce(r.Context(), dlq.RetainConfig{Anyway: true, Letters: time.Nanosecond})
		r.must(err)
		if r.claimed("needed") || got.Letters != 1 || r.count(dlq.Filter{}) != 1 {
			r.Errorf("told to: %+v", got)
		}
	})
}

func TestRetentionResolvesWhatWasSentAndTookEffect(t *testing.T) {
	r := newRig(t, databases[3], dlq.Config{})
	l := r.store(r.died("k", "x"))
	r.redrive(all())
	r.process("k", "x")
	_, err := r.letters.RetainOnce(t.Context(), dlq.RetainConfig{})
	r.must(err)
	r.want(l.ID, dlq.Resolved)
}

// Nobody but the service can tell which claims a letter of such a rule needs.
func TestRetentionKeepsAllWhereKeysAreNotKnown(t *testing.T) {
	r := newRig(t, databases[3], dlq.Config{})
	r.must(r.box.Register(t.Context(), inbox.Consumer{Name: "custom", Queue: "custom", KeyRule: "func:mine"}))
	r.store(delivered("custom.dlq", &letter.Delivery{Body: []byte("x")}))
	got, err := r.letters.RetainOnce(t.Context(), dlq.RetainConfig{})
	r.must(err)
	if len(got.Kept) != 1 || !strings.Contains(got.Kept[0], "only its service can compute") {
		t.Errorf("%+v", got)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			db := d.open(t)
			if _, err := dlq.Open(t.Context(), db, dlq.Config{}); err == nil || !strings.Contains(err.Error(), "dlq.Migrate") {
				t.Errorf("without tables: %v", err)
			}
			for range 2 {
				if err := dlq.Migrate(t.Context(), db); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := dlq.Open(t.Context(), db, dlq.Config{}); err != nil {
				t.Error(err)
			}
			drop := "DROP INDEX sekali_dead_letters_identity"
			if d.name == "mariadb" {
				drop += " ON sekali_dead_letters"
			}
			if _, err := db.ExecContext(t.Context(), drop); err != nil {
				t.Fatal(err)
			}
			if _, err := dlq.Open(t.Context(), db, dlq.Config{}); err == nil || inbox.ClassOf(err) != inbox.ClassConfig || !strings.Contains(err.Error(), "identity") {
				t.Errorf("without the unique index: %v", err)
			}
		})
	}
	if _, err := dlq.Open(t.Context(), nil, dlq.Config{}); err == nil || !strings.Contains(err.Error(), "db is nil") {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"postgres", "mysql", "sqlite"} {
		if text, err := dlq.Schema(name); err != nil || !strings.Contains(text, "sekali_dead_letters") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := dlq.Schema("oracle"); err == nil {
		t.Error("oracle")
	}
}

// A letter that the database refuses must not stay at the head for ever, nor be
// lost.
func TestWhatCannotBeStoredIsPutAside(t *testing.T) {
	r := newRig(t, databases[2], dlq.Config{})
	aside := &publisher{}
	var most int
	r.must(r.db.QueryRowContext(t.Context(), "SELECT @@max_allowed_packet").Scan(&most))
	collect := r.letters.Collector(dlq.CollectorConfig{Unstorable: aside})
	m := r.died("huge", strings.Repeat("x", most+1000))
	r.must(collect(m))
	if len(aside.sent) != 1 || aside.to[0] != queue+".dlq.unstorable" || len(aside.sent[0].Payload) != most+1000 || r.count(dlq.Filter{}) != 0 {
		t.Errorf("%d put aside to %v, %d letters", len(aside.sent), aside.to, r.count(dlq.Filter{}))
	}
	if err := r.collect(m); err == nil || !strings.Contains(err.Error(), "set CollectorConfig.Unstorable") {
		t.Errorf("without a place: %v", err)
	}
	r.must(collect(r.died("k", "x")))
	if r.count(dlq.Filter{}) != 1 {
		t.Error("the next letter was not stored")
	}
}
