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

func (r *rig) verdict(id int64, want dlq.Verdict, says string) {
	r.Helper()
	if j := r.judge(id); j.Verdict != want || !strings.Contains(j.Why, says) {
		r.Errorf("letter %d is %s (%s), want %s because of %q", id, j.Verdict, j.Why, want, says)
	}
}

func (r *rig) exec(query string, args ...any) {
	r.Helper()
	_, err := r.db.ExecContext(context.Background(), query, args...)
	r.must(err)
}

func TestEveryVerdictHasItsProof(t *testing.T) {
	each(t, func(r *rig) {
		isNew := r.store(r.died("new", "x"))
		r.verdict(isNew.ID, dlq.New, "an attempt held it")

		done := r.store(r.died("done", "x"))
		r.process("done", "x")
		r.verdict(done.ID, dlq.Processed, "same content")

		other := r.store(r.died("other", "x"))
		r.process("other", "y")
		r.verdict(other.ID, dlq.Conflict, "other content")

		bare := r.store(r.died("bare", "x"))
		r.process("bare", "")
		r.verdict(bare.ID, dlq.Processed, "not compared")

		split := r.store(r.died("split", "x"))
		r.process("split", "x")
		r.exec("UPDATE processed_messages SET fingerprint = "+r.of.mark+" WHERE message_key = 'split'", inbox.SplitMark())
		r.verdict(split.ID, dlq.Split, "apart from its writes")

		unproven := r.store(r.died("unproven", "x", map[string]any{letter.HeaderClaimedAt: nil}))
		r.verdict(unproven.ID, dlq.Unknown, "no proof")
		keyless := r.store(r.died("", "x"))
		r.verdict(keyless.ID, dlq.Unknown, "no key")
		stranger := r.store(r.died("k", "x", map[string]any{letter.HeaderConsumer: "stranger"}))
		r.verdict(stranger.ID, dlq.Unknown, "no consumer")

		plan, err := r.letters.Plan(r.Context(), all())
		r.must(err)
		run := r.redrive(all())
		if run.Counts.Sent != 1 || run.Counts.Resolved != 1 || run.Counts.Stayed[dlq.Conflict] != 1 || run.Counts.Stayed[dlq.Split] != 1 ||
			run.Counts.Stayed[dlq.Unknown] != 3 || run.Counts.Stayed[dlq.Processed] != 1 {
			r.Errorf("run: %+v", run.Counts)
		}
		if plan.Sent != 1 || plan.Resolved != 1 || plan.Looked != run.Counts.Looked {
			r.Errorf("plan: %+v", plan.Counts)
		}
		if why := "processed at ..., payload not compared: its claim has no fingerprint"; plan.Why[why] != 1 {
			r.Errorf("reasons %v, want %q among them", plan.Why, why)
		}
		r.want(isNew.ID, dlq.Sent)
		r.want(done.ID, dlq.Resolved)
		for _, id := range []int64{other.ID, bare.ID, split.ID, unproven.ID, keyless.ID, stranger.ID} {
			r.want(id, dlq.Waiting)
		}
		trust := all()
		trust.TrustKey, trust.Note = true, note
		r.redrive(trust)
		r.want(bare.ID, dlq.Resolved)
		if sent := r.pub.take(); len(sent) != 1 {
			r.Errorf("%d were sent", len(sent))
		}
	})
}

// What is purged, or was processed before there was an inbox, must never look new.
func TestAnAbsentClaimFromBeforeTheHorizonProvesNothing(t *testing.T) {
	each(t, func(r *rig) {
		before := r.store(r.died("early", "x", map[string]any{letter.HeaderClaimedAt: "2020-01-01T00:00:00.5Z"}))
		r.verdict(before.ID, dlq.Unknown, "before the horizon")

		l := r.store(r.died("purged", "x"))
		r.process("purged", "x")
		r.verdict(l.ID, dlq.Processed, "")
		// The claim goes although its letter is open: its retention was too short.
		_, err := r.box.Purge(r.Context(), queue, inbox.PurgeOptions{Keep: time.Nanosecond, Pause: -1})
		for r.must(err); r.judge(l.ID).Verdict == dlq.Processed; r.must(err) {
			_, err = r.box.Purge(r.Context(), queue, inbox.PurgeOptions{Keep: time.Nanosecond, Pause: -1})
		}
		r.verdict(l.ID, dlq.Unknown, "may be purged")
	})
}

func TestTheTimeOfBirthProvesThatALetterIsNew(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			r := newRig(t, d, dlq.Config{BirthHeader: "born", BirthSkew: time.Minute})
			r.exec(map[string]string{
				"postgres": "UPDATE sekali_consumers SET horizon = horizon - INTERVAL '1 hour'", "pgx": "UPDATE sekali_consumers SET horizon = horizon - INTERVAL '1 hour'",
				"mariadb": "UPDATE sekali_consumers SET horizon = horizon - INTERVAL 1 HOUR", "sqlite": "UPDATE sekali_consumers SET horizon = horizon - 3600000",
			}[d.name])
			now := r.clock()
			for name, c := range map[string]struct {
				born any
				want dlq.Verdict
				says string
			}{
				"text":         {now.Add(-time.Minute).Format(time.RFC3339), dlq.New, "born at"},
				"timestamp":    {now.Add(-time.Minute).Truncate(time.Second), dlq.New, "born at"},
				"unix seconds": {now.Add(-time.Minute).Unix(), dlq.New, "born at"},
				"too early":    {now.Add(-2 * time.Hour).Format(time.RFC3339), dlq.Unknown, "born before the horizon"},
				"within skew":  {now.Add(-time.Hour + 30*time.Second).Format(time.RFC3339), dlq.Unknown, "born before the horizon"},
				"future":       {now.Add(time.Hour).Format(time.RFC3339), dlq.Unknown, "in the future"},
				"no time":      {"yesterday", dlq.Unknown, "no proof"},
			} {
				l := r.store(r.died("k "+name, "x", map[string]any{letter.HeaderClaimedAt: nil, "born": c.born}))
				r.verdict(l.ID, c.want, c.says)
			}
		})
	}
}

// A claim of somebody else's consumer of the same name would resolve a letter that
// was never processed.
func TestAConsumerOfTheSameNameIsNotTakenForAnother(t *testing.T) {
	sqlite := databases[3]
	other := newRig(t, sqlite, dlq.Config{})
	other.must(other.box.Register(t.Context(), inbox.Consumer{Name: "stock", Queue: "b.stock", KeyRule: "message-id"}))
	main := newRig(t, sqlite, dlq.Config{Inboxes: map[string]*inbox.Inbox{"other": other.box}})

	of := map[string]any{letter.HeaderConsumer: "stock", letter.HeaderQueue: "a.stock"}
	l := main.store(main.died("k", "x", of))
	main.verdict(l.ID, dlq.Unknown, "another consumer's of that name")

	r := newRig(t, sqlite, dlq.Config{})
	r.must(r.box.Register(t.Context(), inbox.Consumer{Name: "stock", Queue: "a.stock", KeyRule: "message-id"}))
	r.config.Inboxes = map[string]*inbox.Inbox{"main": r.box, "other": other.box}
	r.reopen()
	l = r.store(r.died("k", "x", of))
	if j := r.judge(l.ID); j.Inbox != "main" || j.Verdict != dlq.New {
		t.Errorf("told apart by the queue: %+v", j)
	}
	l = r.store(r.died("k", "x", map[string]any{letter.HeaderConsumer: "stock", letter.HeaderQueue: "c.stock"}))
	r.verdict(l.ID, dlq.Unknown, "give only the inbox that is meant")
}

func TestLettersOfARenamedConsumerAreJudgedByItsNewName(t *testing.T) {
	r := newRig(t, databases[3], dlq.Config{})
	l := r.store(r.died("k", "x"))
	r.process("k", "x")
	_, err := r.box.Rename(t.Context(), queue, "renamed", inbox.Note{Who: "ops", Why: "test", Stopped: true})
	r.must(err)
	r.reopen()
	r.verdict(l.ID, dlq.Processed, "same content")
}

// Only the broker knows of this death: consumer and key come from the registry.
func TestALetterOfTheBrokerIsJudgedByTheRegistry(t *testing.T) {
	each(t, func(r *rig) {
		m := func(id string) *letter.Delivery {
			return &letter.Delivery{Properties: letter.Properties{MessageID: id}, Body: []byte("x"), Headers: map[string]any{
				"x-death": []any{map[string]any{"queue": queue, "reason": "delivery_limit", "count": int64(1), "time": time.Now()}},
			}}
		}
		l := r.store(delivered(queue+".dlq", m("m1")))
		if l.Consumer != queue || l.Key != "m1" || !l.FingerprintGuessed {
			r.Fatalf("%+v", l)
		}
		r.verdict(l.ID, dlq.Unknown, "no proof")
		r.process("m1", "x")
		r.verdict(l.ID, dlq.Processed, "same content")
	})
}

func TestAFuncKeyIsComputedByItsServiceOnly(t *testing.T) {
	r := newRig(t, databases[3], dlq.Config{})
	r.must(r.box.Register(t.Context(), inbox.Consumer{Name: "custom", Queue: "custom", KeyRule: "func:mine"}))
	l := r.store(delivered("custom.dlq", &letter.Delivery{Properties: letter.Properties{MessageID: "m"}, Body: []byte("x")}))
	if l.Consumer != "custom" || l.Key != "" || !strings.Contains(l.NoKey, "func:mine") {
		t.Errorf("%+v", l)
	}
}
