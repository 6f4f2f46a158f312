package dlq_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// taken makes the publisher lose its run to another process at the first message,
// as if its own process had been killed there. It returns what that one did.
func (r *rig) taken(other *publisher) (resumed func() dlq.Run) {
	r.Helper()
	second, err := dlq.Open(r.Context(), r.db, r.config)
	r.must(err)
	var run dlq.Run
	done := false
	r.pub.answer = func(string, *message.Message) error {
		if done {
			return errLost
		}
		done = true
		_, err := r.db.ExecContext(r.Context(), "DELETE FROM sekali_run_leases")
		r.must(err)
		runs, err := r.letters.Runs(r.Context(), 1)
		r.must(err)
		run, err = second.Resume(r.Context(), other, runs[0].ID, dlq.ResumeConfig{})
		r.must(err)
		return errLost
	}
	return func() dlq.Run { return run }
}

// Whatever the letters are by now: the run chose them once, and has to finish them.
func TestAResumedRunTakesUpAllThatItLeftInSending(t *testing.T) {
	for name, f := range map[string]dlq.Filter{
		"chosen by state": {States: []dlq.State{dlq.Waiting}}, "by verdict": {Verdicts: []dlq.Verdict{dlq.Unknown}}, "by run": {Run: "earlier"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, databases[3], dlq.Config{})
			l := r.store(r.died("", "x"))
			if f.Run != "" {
				_, err := r.db.ExecContext(r.Context(), "UPDATE sekali_dead_letters SET run_id = ?", f.Run)
				r.must(err)
			}
			ctx, cancel := context.WithCancel(r.Context())
			r.pub.answer = func(string, *message.Message) error { cancel(); return errLost }
			c := dlq.RedriveConfig{Filter: f, AcceptUnknown: true, Note: note, Rate: -1, Lease: time.Second}
			run, err := r.letters.Redrive(ctx, r.pub, c)
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%+v, %v", run, err)
			}
			r.want(l.ID, dlq.Sending)
			r.pub.answer = nil
			run, err = r.letters.Resume(r.Context(), r.pub, run.ID, dlq.ResumeConfig{})
			r.must(err)
			if run.State != dlq.Done || run.Counts.Sent != 1 || run.Counts.Looked != 1 {
				t.Errorf("%+v", run)
			}
			r.want(l.ID, dlq.Sent)
		})
	}
}

func TestARunThatWasKilledTakesNoMoreThanItsLimit(t *testing.T) {
	each(t, func(r *rig) {
		r.fill(6)
		other := &publisher{}
		resumed := r.taken(other)
		c := all()
		c.Filter.Limit = 2
		if _, err := r.letters.Redrive(r.Context(), r.pub, c); err == nil {
			r.Fatal("the first process kept its run")
		}
		if run := resumed(); run.State != dlq.Done || run.Counts.Looked != 2 || run.Counts.Sent != 2 || len(other.take()) != 2 {
			r.Errorf("%+v", run)
		}
		if got := r.states(); got[dlq.Sent] != 2 || got[dlq.Waiting] != 4 {
			r.Errorf("%v", got)
		}
	})
}

func TestAResumedRunCountsEachLetterOnce(t *testing.T) {
	each(t, func(r *rig) {
		r.fill(3)
		r.process("key-1", "x")
		r.process("key-2", "another body")
		r.store(r.died("", "x"))
		other := &publisher{}
		resumed := r.taken(other)
		if _, err := r.letters.Redrive(r.Context(), r.pub, all()); err == nil {
			r.Fatal("the first process kept its run")
		}
		c := resumed().Counts
		if c.Looked != 4 || c.Sent != 1 || c.Resolved != 1 || c.Stayed[dlq.Conflict] != 1 || c.Stayed[dlq.Unknown] != 1 {
			r.Errorf("%+v", c)
		}
	})
}

// A letter that was sent under a key made for it has taken effect; then its claim
// is purged. No claim of that key is no proof any more.
func TestALetterLeftInSendingIsNotSentAgainWhenItsClaimMayBePurged(t *testing.T) {
	each(t, func(r *rig) {
		l := r.store(r.died("", "x"))
		key := ""
		r.pub.answer = func(_ string, m *message.Message) error {
			if key == "" {
				key, _ = letter.KeyFor(m.Metadata[letter.HeaderKey], queue)
				r.process(key, "x")
			}
			return errLost
		}
		c := all()
		c.AcceptUnknown, c.Note = true, note
		r.redrive(c)
		r.pub.answer = nil
		r.want(l.ID, dlq.Sending)
		cs, err := r.box.Consumers(r.Context())
		r.must(err)

		// The letter's own need keeps the claim.
		p, err := r.box.Purge(r.Context(), queue, inbox.PurgeOptions{Keep: time.Nanosecond, Hold: r.letters.Needs(cs[0])})
		if r.must(err); p.Deleted != 0 || p.Kept != 1 {
			r.Errorf("%+v", p)
		}
		r.verdict(l.ID, dlq.Processed, "same content")
		p, err = r.box.Purge(r.Context(), queue, inbox.PurgeOptions{Keep: time.Nanosecond})
		if r.must(err); p.Deleted != 1 {
			r.Fatalf("%+v", p)
		}
		r.verdict(l.ID, dlq.Unknown, "may be purged")
		if run := r.redrive(all()); run.Counts.Sent != 0 || run.Counts.Stayed[dlq.Unknown] != 1 || len(r.pub.take()) != 0 {
			r.Errorf("%+v", run.Counts)
		}
	})
}

func TestAKeyThatNoDatabaseKeepsStopsNoRun(t *testing.T) {
	each(t, func(r *rig) {
		for _, key := range []string{"nul\x00in it", "bad \xff utf-8"} {
			r.store(delivered(queue+".dlq", &letter.Delivery{Body: []byte(key), Headers: map[string]any{letter.HeaderKey: queue + "/" + key}}))
		}
		c := all()
		c.AsNew, c.Note = true, note
		if run := r.redrive(c); run.Counts.Sent != 2 {
			r.Errorf("%+v", run.Counts)
		}
	})
}

func TestAnAttemptInTheFutureProvesNothing(t *testing.T) {
	each(t, func(r *rig) {
		l := r.store(r.died("k", "x", map[string]any{letter.HeaderClaimedAt: r.clock().Add(time.Hour).Format(time.RFC3339Nano)}))
		r.verdict(l.ID, dlq.Unknown, "in the future")
	})
}

func TestAStateIsAChoice(t *testing.T) {
	each(t, func(r *rig) {
		id := r.fill(1)[0]
		_, err := r.letters.Park(r.Context(), dlq.Filter{States: []dlq.State{dlq.Waiting}}, note)
		r.must(err)
		r.want(id, dlq.Parked)
		n, err := r.letters.Reopen(r.Context(), dlq.Filter{States: []dlq.State{dlq.Parked}}, note)
		if r.must(err); n != 1 {
			r.Errorf("reopened %d", n)
		}
		if run := r.redrive(dlq.RedriveConfig{Filter: dlq.Filter{States: []dlq.State{dlq.Waiting}}}); run.Counts.Sent != 1 {
			r.Errorf("%+v", run.Counts)
		}
	})
}
