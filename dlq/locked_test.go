package dlq_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/sekali-mq/sekali/dlq"
)

// between runs f up to where it waits for a row that a transaction holds, then
// commits that. PostgreSQL tells who waits.
func (r *rig) between(hold func(tx *sql.Tx) error, then func(), f func() error) error {
	r.Helper()
	tx, err := r.db.BeginTx(r.Context(), nil)
	r.must(err)
	defer tx.Rollback()
	r.must(hold(tx))
	done := make(chan error, 1)
	go func() { done <- f() }()
	limit := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for waiting := 0; waiting == 0; {
		select {
		case err := <-done:
			r.Fatalf("it did not wait: %v", err)
		case <-limit:
			r.Fatal("it does not come to the row")
		case <-tick.C:
		}
		r.must(r.db.QueryRowContext(r.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&waiting))
	}
	if then != nil {
		then()
	}
	r.must(tx.Commit())
	return <-done
}

// A run takes its lease, and the letter, while an operator's act is on its way to
// the letter.
func TestALetterThatARunTakesUpMeanwhileIsNotPutAside(t *testing.T) {
	r := newRig(t, databases[0], dlq.Config{})
	id := r.fill(1)[0]
	_, err := r.db.ExecContext(t.Context(), "UPDATE sekali_dead_letters SET state = 'sending', run_id = 'dead', send_n = 1")
	r.must(err)
	err = r.between(func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE sekali_dead_letters SET run_id = 'live'")
		return err
	}, func() {
		_, err := r.db.ExecContext(t.Context(), "INSERT INTO sekali_run_leases (queue, run_id, owner, until) VALUES ('orders', 'live', 'o', now() + interval '1 minute')")
		r.must(err)
	}, func() error {
		_, err := r.letters.Park(t.Context(), dlq.Filter{IDs: []int64{id}}, note)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "is being sent by run live") {
		t.Errorf("parked: %v", err)
	}
	r.want(id, dlq.Sending)
}

func TestALetterThatWaitsAgainMeanwhileKeepsItsHistory(t *testing.T) {
	r := newRig(t, databases[0], dlq.Config{})
	id := r.fill(1)[0]
	_, err := r.db.ExecContext(t.Context(), "UPDATE sekali_dead_letters SET state = 'resolved', changed_at = changed_at - interval '100 days'")
	r.must(err)
	var got dlq.Retained
	r.must(r.between(func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE sekali_dead_letters SET state = 'waiting', changed_at = now()")
		return err
	}, nil, func() (err error) {
		got, err = r.letters.RetainOnce(t.Context(), dlq.RetainConfig{})
		return err
	}))
	if got.Letters != 0 {
		t.Errorf("removed, as it says: %d", got.Letters)
	}
	if h := r.history(id); h != "collected" {
		t.Errorf("history %q", h)
	}
}
