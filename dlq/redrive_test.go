package dlq_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// fill collects n new letters and returns their ids.
func (r *rig) fill(n int) (ids []int64) {
	r.Helper()
	for i := range n {
		r.must(r.collect(r.died(fmt.Sprintf("key-%d", i), "x")))
	}
	for l, err := range r.letters.Each(r.Context(), dlq.Filter{}, dlq.OldestFirst) {
		r.must(err)
		ids = append(ids, l.ID)
	}
	return ids
}

func TestARedrivenMessageIsTheOneThatDied(t *testing.T) {
	r := newRig(t, databases[3], dlq.Config{})
	at := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	l := r.store(delivered(queue+".dlq", &letter.Delivery{
		Exchange: "ex", RoutingKey: "rk", Body: []byte{0, 1, 2},
		Properties: letter.Properties{MessageID: "m1", CorrelationID: "c", UserID: "alice", Expiration: "60000", Timestamp: at, Priority: 4, Type: "t"},
		Headers: map[string]any{
			"event_id": int64(7), "list": []any{int32(1), nil}, "dec": letter.Decimal{Scale: 1, Value: 5}, "x-own": "kept", "nil": nil,
			"CC": []any{"copies"}, "BCC": []any{"blind"}, "x-death": []any{map[string]any{"queue": queue, "reason": "rejected", "count": int64(1), "time": at}},
			"x-first-death-queue": "elsewhere", "x-delivery-count": int64(3), "reason_poisoned": "old",
			letter.HeaderReason: "no stock", letter.HeaderQueue: queue, letter.HeaderConsumer: queue, letter.HeaderLetterKey: "7", letter.HeaderAttempt: "10",
			letter.HeaderClaimedAt: r.clock().Format(time.RFC3339Nano), letter.HeaderFirstFailure: "2026-07-01T10:00:00Z", letter.HeaderWaits: "2",
			letter.HeaderFingerprint: "01ff", letter.HeaderHistory: "2026-06-01T10:00:00Z failed \"orders\" 10\n", letter.HeaderExchange: "ex",
		},
	}))
	r.redrive(all())
	sent := r.pub.take()
	if len(sent) != 1 || string(sent[0].Payload) != "\x00\x01\x02" {
		t.Fatalf("%d sent", len(sent))
	}
	props, headers := wire(sent[0])
	want := letter.Properties{MessageID: "m1", CorrelationID: "c", Timestamp: at, Priority: 4, Type: "t"}
	if props != want {
		t.Errorf("properties %+v", props)
	}
	history, _ := headers[letter.HeaderHistory].(string)
	if strings.Count(history, "\n") != 3 || !strings.Contains(history, "2026-06-01T10:00:00Z") || !strings.Contains(history, "rejected") {
		t.Errorf("history %q", history)
	}
	delete(headers, letter.HeaderHistory)
	wantHeaders := map[string]any{
		"event_id": int64(7), "list": []any{int32(1), nil}, "dec": letter.Decimal{Scale: 1, Value: 5}, "x-own": "kept", "nil": nil,
		letter.HeaderUserID: "alice", letter.HeaderExpiration: "60000", letter.HeaderRedrive: fmt.Sprintf("%d/1", l.ID),
	}
	if !reflect.DeepEqual(headers, wantHeaders) {
		t.Errorf("headers\n got %v\nwant %v", headers, wantHeaders)
	}
}

func TestADryRunChangesNothingAndTellsWhatTheRunDoes(t *testing.T) {
	each(t, func(r *rig) {
		ids := r.fill(7)
		r.process("key-1", "x")
		r.process("key-2", "y")
		r.store(r.died("", "x"))
		c := all()
		before := r.states()
		plan, err := r.letters.Plan(r.Context(), c)
		r.must(err)
		if got := r.states(); !maps.Equal(got, before) || len(r.pub.take()) != 0 || r.history(ids[0]) != "collected" {
			r.Errorf("the dry run changed %v to %v", before, got)
		}
		if runs, err := r.letters.Runs(r.Context(), 0); err != nil || len(runs) != 0 {
			r.Errorf("%v, %v", runs, err)
		}
		run := r.redrive(c)
		if !reflect.DeepEqual(plan.Counts, run.Counts) || plan.Sent != 5 || plan.Queues[queue] != 5 {
			r.Errorf("plan %+v\n run %+v", plan.Counts, run.Counts)
		}
		// Two claims were committed after all of these died.
		if plan.Older != 5 || plan.OrderUnknown != 0 {
			r.Errorf("older %d, unknown %d", plan.Older, plan.OrderUnknown)
		}
	})
}

func TestALetterThatComesBackTooOftenIsParked(t *testing.T) {
	each(t, func(r *rig) {
		id := r.fill(1)[0]
		c := all()
		c.Cap = 2
		for range 2 {
			r.redrive(c)
			r.store(r.again(r.pub.take()[0], "key-0"))
			r.want(id, dlq.Waiting)
		}
		if run := r.redrive(c); run.Counts.Parked != 1 || run.Counts.Sent != 0 {
			r.Errorf("%+v", run.Counts)
		}
		r.want(id, dlq.Parked)
		if run := r.redrive(c); run.Counts.Looked != 0 {
			r.Errorf("a parked letter was looked at: %+v", run.Counts)
		}
		n, err := r.letters.Reopen(r.Context(), dlq.Filter{IDs: []int64{id}}, note)
		if r.must(err); n != 1 {
			r.Errorf("reopened %d", n)
		}
		if run := r.redrive(c); run.Counts.Sent != 1 {
			r.Errorf("reopened: %+v", run.Counts)
		}
	})
}

func TestARunPausesWhenAllOfItComesBack(t *testing.T) {
	for _, keep := range []bool{false, true} {
		r := newRig(t, databases[3], dlq.Config{})
		r.fill(60)
		r.pub.after = func(_ string, m *message.Message) {
			r.must(r.collect(r.again(m, m.Metadata["event_id"])))
		}
		c := all()
		c.Rate, c.KeepGoing = 80, keep
		run, err := r.letters.Redrive(t.Context(), r.pub, c)
		if keep {
			if err != nil || run.Counts.Sent != 60 {
				t.Errorf("keep going: %+v, %v", run, err)
			}
			continue
		}
		if !errors.Is(err, dlq.ErrPaused) || run.State != dlq.Paused || run.Counts.Sent < 20 || run.Counts.Sent >= 60 {
			t.Fatalf("%+v, %v", run, err)
		}
		r.pub.after = nil
		before := run.Counts.Sent
		run, err = r.letters.Resume(t.Context(), r.pub, run.ID, dlq.ResumeConfig{KeepGoing: true})
		if err != nil || run.State != dlq.Done || run.Counts.Sent != 60 {
			t.Errorf("resumed after %d: %+v, %v", before, run, err)
		}
	}
}

func TestARunWithSomeSuccessIsNotPaused(t *testing.T) {
	r := newRig(t, databases[3], dlq.Config{})
	r.fill(60)
	n := 0
	r.pub.after = func(_ string, m *message.Message) {
		if n++; n%10 == 0 {
			r.process(m.Metadata["event_id"], "x")
			return
		}
		r.must(r.collect(r.again(m, m.Metadata["event_id"])))
	}
	c := all()
	c.Rate = 80
	if run, err := r.letters.Redrive(t.Context(), r.pub, c); err != nil || run.Counts.Sent != 60 {
		t.Errorf("%+v, %v", run, err)
	}
}

func TestARunEndsThoughEverythingComesStraightBack(t *testing.T) {
	each(t, func(r *rig) {
		r.fill(30)
		fresh := 0
		r.pub.after = func(_ string, m *message.Message) {
			r.must(r.collect(r.again(m, m.Metadata["event_id"])))
			fresh++
			r.must(r.collect(r.died(fmt.Sprintf("fresh-%d", fresh), "x")))
		}
		c := all()
		c.Batch, c.KeepGoing = 7, true
		if run := r.redrive(c); run.Counts.Sent != 30 {
			r.Errorf("%+v", run.Counts)
		}
		if got := r.states(); got[dlq.Waiting] != 60 || len(got) != 1 {
			r.Errorf("%v", got)
		}
	})
}

func TestALetterThatCannotBePublishedWaitsAgainAndTheRunGoesOn(t *testing.T) {
	eachDriver(t, func(r *rig) {
		ids := r.fill(6)
		r.pub.answer = func(_ string, m *message.Message) error {
			if m.Metadata["event_id"] == "key-2" {
				return fmt.Errorf("publish: %w", errRefused)
			}
			return nil
		}
		run := r.redrive(all())
		if run.Counts.Sent != 5 || run.Counts.Failed != 1 {
			r.Errorf("%+v", run.Counts)
		}
		r.want(ids[2], dlq.Waiting)
		events, err := r.letters.History(r.Context(), ids[2])
		r.must(err)
		if last := events[len(events)-1]; last.What != "failed" || !strings.Contains(last.Text, "unroutable") {
			r.Errorf("%+v", last)
		}
		if l := r.get(ids[2]); l.Redrives != 0 {
			r.Errorf("counted as a redrive: %+v", l)
		}
		r.pub.answer = nil
		if run := r.redrive(all()); run.Counts.Sent != 1 {
			r.Errorf("next run: %+v", run.Counts)
		}
	})
}

func TestAnUnknownConfirmIsSentAgainAndNeverMarkedAsSent(t *testing.T) {
	each(t, func(r *rig) {
		id := r.fill(2)[1]
		var tries atomic.Int64
		r.pub.answer = func(_ string, m *message.Message) error {
			if m.Metadata["event_id"] == "key-1" {
				tries.Add(1)
				return errLost
			}
			return nil
		}
		run := r.redrive(all())
		if run.Counts.Sent != 1 || run.Counts.Unconfirmed != 1 || tries.Load() < 2 {
			r.Errorf("%+v after %d tries", run.Counts, tries.Load())
		}
		r.want(id, dlq.Sending)
		r.pub.answer = nil
		r.pub.take()
		r.redrive(all())
		r.want(id, dlq.Sent)
		if sent := r.pub.take(); len(sent) != 1 || sent[0].Metadata[letter.HeaderRedrive] != fmt.Sprintf("%d/1", id) {
			r.Errorf("%d sent", len(sent))
		}
	})
}

func TestARunWaitsForTheBroker(t *testing.T) {
	r := newRig(t, databases[3], dlq.Config{})
	r.fill(5)
	var tries atomic.Int64
	r.pub.answer = func(string, *message.Message) error {
		if tries.Add(1) <= 10 {
			return errUnsent
		}
		return nil
	}
	if run := r.redrive(all()); run.Counts.Sent != 5 || run.Counts.Failed != 0 {
		t.Errorf("%+v", run.Counts)
	}
	if !strings.Contains(r.log.String(), "waits for it") {
		t.Error("nothing was said")
	}
}

func TestAStoppedRunIsResumedWhereItWas(t *testing.T) {
	each(t, func(r *rig) {
		r.fill(12)
		ctx, cancel := context.WithCancel(r.Context())
		n := 0
		r.pub.answer = func(string, *message.Message) error {
			if n++; n > 6 {
				cancel()
				return errLost
			}
			return nil
		}
		c := all()
		c.Batch = 4
		run, err := r.letters.Redrive(ctx, r.pub, c)
		if !errors.Is(err, context.Canceled) || run.State != dlq.Paused || run.Counts.Sent != 6 {
			r.Fatalf("%+v, %v", run, err)
		}
		if got := r.states(); got[dlq.Sending] != 2 || got[dlq.Sent] != 6 || got[dlq.Waiting] != 4 {
			r.Errorf("%v", got)
		}
		r.pub.answer = nil
		run, err = r.letters.Resume(r.Context(), r.pub, run.ID, dlq.ResumeConfig{})
		r.must(err)
		if run.Counts.Sent != 12 || run.State != dlq.Done || r.states()[dlq.Sent] != 12 {
			r.Errorf("%+v, %v", run, r.states())
		}
	})
}

func TestAPublisherThatPanicsLeavesAllToTheNextRun(t *testing.T) {
	each(t, func(r *rig) {
		r.fill(3)
		r.pub.answer = func(string, *message.Message) error { panic("out of paper") }
		func() {
			defer func() {
				if recover() == nil {
					r.Error("the panic was swallowed")
				}
			}()
			_, _ = r.letters.Redrive(r.Context(), r.pub, all())
		}()
		if got := r.states(); got[dlq.Sending] != 3 {
			r.Errorf("%v", got)
		}
		r.pub.answer = nil
		if run := r.redrive(all()); run.Counts.Sent != 3 {
			r.Errorf("%+v", run.Counts)
		}
	})
}

func TestOneRunAtATimeHasAQueue(t *testing.T) {
	each(t, func(r *rig) {
		r.fill(2)
		entered, leave := make(chan struct{}), make(chan struct{})
		r.pub.answer = func(string, *message.Message) error {
			select {
			case entered <- struct{}{}:
			default:
			}
			<-leave
			return nil
		}
		done := make(chan error, 1)
		go func() {
			_, err := r.letters.Redrive(context.Background(), r.pub, all())
			done <- err
		}()
		<-entered
		if _, err := r.letters.Redrive(r.Context(), r.pub, all()); !errors.Is(err, dlq.ErrBusy) {
			r.Errorf("a second run: %v", err)
		}
		runs, err := r.letters.Runs(r.Context(), 0)
		r.must(err)
		if _, err := r.letters.Resume(r.Context(), r.pub, runs[0].ID, dlq.ResumeConfig{}); !errors.Is(err, dlq.ErrBusy) {
			r.Errorf("resumed while it runs: %v", err)
		}
		if _, err := r.letters.Park(r.Context(), dlq.Filter{All: true}, note); err == nil {
			r.Error("letters that are being sent were parked")
		}
		close(leave)
		r.must(<-done)
	})
}

func TestACancelledRunStops(t *testing.T) {
	each(t, func(r *rig) {
		r.fill(9)
		n := 0
		r.pub.after = func(string, *message.Message) {
			if n++; n == 3 {
				runs, err := r.letters.Runs(r.Context(), 0)
				r.must(err)
				run, err := r.letters.Cancel(r.Context(), runs[0].ID, note)
				if r.must(err); run.State != dlq.Cancelled {
					r.Errorf("%+v", run)
				}
			}
		}
		c := all()
		c.Batch = 3
		run, err := r.letters.Redrive(r.Context(), r.pub, c)
		if !errors.Is(err, dlq.ErrCancelled) || run.State != dlq.Cancelled {
			r.Fatalf("%+v, %v", run, err)
		}
		if got := r.states(); got[dlq.Sent] != 3 || got[dlq.Waiting] != 6 {
			r.Errorf("%v", got)
		}
		if _, err := r.letters.Resume(r.Context(), r.pub, run.ID, dlq.ResumeConfig{}); !errors.Is(err, dlq.ErrCancelled) {
			r.Errorf("resumed: %v", err)
		}
		r.pub.after = nil
		r.redrive(all())
	})
}

// fingerprints and verdicts do not matter to a key that was made for the redrive.
func TestNamedActsSendUnderKeysOfTheirOwn(t *testing.T) {
	each(t, func(r *rig) {
		done, unproven, bare := r.store(r.died("done", "x")), r.store(r.died("unproven", "x", map[string]any{letter.HeaderClaimedAt: nil})), r.store(r.died("", "x"))
		r.process("done", "x")
		c := all()
		c.AcceptUnknown = true
		if _, err := r.letters.Redrive(r.Context(), r.pub, c); !errors.Is(err, dlq.ErrNoNote) {
			r.Errorf("without a note: %v", err)
		}
		c.Note = note
		run := r.redrive(c)
		if run.Counts.Sent != 2 || run.Counts.Resolved != 1 {
			r.Errorf("%+v", run.Counts)
		}
		sent := r.pub.take()
		_, h := wire(sent[0])
		if _, given := h[letter.HeaderKey]; given || sent[0].Metadata[letter.HeaderRedrive] != fmt.Sprintf("%d/1", unproven.ID) {
			r.Errorf("a letter with a key got another: %v", h)
		}
		_, h = wire(sent[1])
		given, _ := h[letter.HeaderKey].(string)
		if !strings.HasPrefix(given, fmt.Sprintf("orders/sekali-letter:%d.", bare.ID)) {
			r.Errorf("given %q", given)
		}
		// It dies again, and is judged by that key from now on.
		key := strings.TrimPrefix(given, "orders/")
		back := r.store(r.again(sent[1], key))
		if back.ID != bare.ID && r.get(bare.ID).Key != key {
			r.Errorf("came back as %+v", back)
		}
		r.verdict(bare.ID, dlq.New, "")
		if run := r.redrive(all()); run.Counts.Sent != 1 {
			r.Errorf("%+v", run.Counts)
		}
		_, h = wire(r.pub.take()[0])
		if h[letter.HeaderKey] != given {
			r.Errorf("the second redrive has key %v, the first %v", h[letter.HeaderKey], given)
		}
		r.process(key, "x")
		f, err := r.letters.Fates(r.Context(), r.get(bare.ID).Run)
		if r.must(err); f.Processed != 1 {
			r.Errorf("%+v", f)
		}

		_, err = r.letters.Reopen(r.Context(), dlq.Filter{IDs: []int64{done.ID}, States: []dlq.State{dlq.Resolved}}, note)
		r.must(err)
		c = dlq.RedriveConfig{Filter: dlq.Filter{IDs: []int64{done.ID}}, AsNew: true, Note: note, Lease: time.Second}
		run = r.redrive(c)
		_, h = wire(r.pub.take()[0])
		if h[letter.HeaderKey] != "orders/done#redrive-"+run.ID {
			r.Errorf("as new: %v", h[letter.HeaderKey])
		}
		r.verdict(done.ID, dlq.Unknown, "") // the new key has no claim yet
		r.process("done#redrive-"+run.ID, "x")
		r.verdict(done.ID, dlq.Processed, "same content")
	})
}

// The consumer of such a letter reads no given key: a second copy has an effect.
func TestALetterThatNobodyRecognisesIsSentOnce(t *testing.T) {
	each(t, func(r *rig) {
		l := r.store(delivered("legacy.dlq", &letter.Delivery{Body: []byte("x")}))
		if l.Queue != "legacy" {
			r.Fatalf("%+v", l)
		}
		var tries atomic.Int64
		r.pub.answer = func(string, *message.Message) error { tries.Add(1); return errLost }
		c := all()
		c.AcceptUnknown, c.Note = true, note
		run := r.redrive(c)
		if tries.Load() != 1 || run.Counts.Unconfirmed != 1 {
			r.Errorf("%d tries, %+v", tries.Load(), run.Counts)
		}
		r.want(l.ID, dlq.Sending)
		r.pub.answer = nil
		if run := r.redrive(c); run.Counts.Held != 1 || len(r.pub.take()) != 0 {
			r.Errorf("next run: %+v", run.Counts)
		}
		_, err := r.letters.Reopen(r.Context(), dlq.Filter{IDs: []int64{l.ID}, States: []dlq.State{dlq.Sending}}, note)
		r.must(err)
		if run := r.redrive(c); run.Counts.Sent != 1 {
			r.Errorf("reopened: %+v", run.Counts)
		}
		sent := r.pub.take()[0]
		if _, h := wire(sent); h[letter.HeaderKey] != nil {
			r.Errorf("given %v", h[letter.HeaderKey])
		}
		d, _ := letter.FromContext(sent.Context())
		_, h := wire(sent)
		r.store(delivered("legacy.dlq", &letter.Delivery{Body: d.Body, Headers: h}))
		r.want(l.ID, dlq.Waiting)
	})
}

func TestAnAsNewRedriveThatCrashedIsSentUnderTheSameKey(t *testing.T) {
	each(t, func(r *rig) {
		l := r.store(r.died("k", "x"))
		r.process("k", "x")
		r.pub.answer = func(string, *message.Message) error { return errLost }
		c := dlq.RedriveConfig{Filter: dlq.Filter{IDs: []int64{l.ID}}, AsNew: true, Note: note, Lease: time.Second}
		first := r.redrive(c)
		r.want(l.ID, dlq.Sending)
		r.pub.answer = nil
		run := r.redrive(all())
		if run.Counts.Sent != 1 || run.Counts.Resolved != 0 {
			r.Errorf("a plain run: %+v", run.Counts)
		}
		if _, h := wire(r.pub.take()[0]); h[letter.HeaderKey] != "orders/k#redrive-"+first.ID {
			r.Errorf("sent under %v", h[letter.HeaderKey])
		}
	})
}

func TestActsNeedAChoiceAndANote(t *testing.T) {
	eachDriver(t, func(r *rig) {
		ids := r.fill(3)
		for name, act := range map[string]func(context.Context, dlq.Filter, dlq.Note) (int64, error){
			"park": r.letters.Park, "discard": r.letters.Discard, "reopen": r.letters.Reopen,
		} {
			if _, err := act(r.Context(), dlq.Filter{}, note); !errors.Is(err, dlq.ErrNoFilter) {
				r.Errorf("%s all by mistake: %v", name, err)
			}
			if _, err := act(r.Context(), dlq.Filter{All: true}, dlq.Note{Who: "ops"}); !errors.Is(err, dlq.ErrNoNote) {
				r.Errorf("%s without a reason: %v", name, err)
			}
		}
		if _, err := r.letters.Redrive(r.Context(), r.pub, dlq.RedriveConfig{}); !errors.Is(err, dlq.ErrNoFilter) {
			r.Errorf("redrive all by mistake: %v", err)
		}
		n, err := r.letters.Discard(r.Context(), dlq.Filter{IDs: ids[:2]}, note)
		if r.must(err); n != 2 {
			r.Errorf("discarded %d", n)
		}
		events, err := r.letters.History(r.Context(), ids[0])
		r.must(err)
		if e := events[len(events)-1]; e.What != "discarded" || e.Who != note.Who || e.Why != note.Why || e.At.IsZero() {
			r.Errorf("audit: %+v", e)
		}
		// A letter of the same claim came meanwhile: reopening makes no second one.
		again := r.store(r.died("key-0", "x"))
		n, err = r.letters.Reopen(r.Context(), dlq.Filter{IDs: ids[:2]}, note)
		if r.must(err); n != 2 {
			r.Errorf("reopened %d", n)
		}
		if l := r.get(ids[0]); l.State != dlq.Resolved || l.MergedInto != again.ID {
			r.Errorf("%+v", l)
		}
		r.want(ids[1], dlq.Waiting)
	})
}

// A letter may come back before its run has marked it as sent: whichever of the
// two is first, it waits in the end. SEKALI_RACES=10000 is the long form.
func TestALetterThatDiesAtOnceWaitsWhateverTheRace(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) { race(t, d, 60) })
	}
	t.Run("fast", func(t *testing.T) {
		letters, err := strconv.Atoi(cmp.Or(os.Getenv("SEKALI_RACES"), "1000"))
		if err != nil {
			t.Fatal(err)
		}
		race(t, unsafeSQLite, letters)
	})
}

func race(t *testing.T, d database, letters int) {
	t.Helper()
	r := newRig(t, d, dlq.Config{AllowLossOnCrash: true})
	for i := range letters {
		r.must(r.collect(r.died(fmt.Sprintf("key-%d", i), "x")))
	}
	claimed := r.clock().Format(time.RFC3339Nano)
	back := make(chan *message.Message, letters)
	var consumers sync.WaitGroup
	for range 4 {
		consumers.Go(func() {
			for m := range back {
				_, h := wire(m)
				h[letter.HeaderReason], h[letter.HeaderConsumer], h[letter.HeaderQueue] = "again", queue, queue
				h[letter.HeaderFingerprint] = fmt.Sprintf("%x", inbox.Fingerprint(m.Payload))
				h[letter.HeaderClaimedAt], h[letter.HeaderLetterKey] = claimed, m.Metadata["event_id"]
				if err := r.collect(delivered(queue+".dlq", &letter.Delivery{Headers: h, Body: m.Payload})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	r.pub.after = func(_ string, m *message.Message) { back <- m }
	c := all()
	c.Batch, c.KeepGoing, c.Lease = 20, true, time.Minute
	run := r.redrive(c)
	close(back)
	consumers.Wait()
	if got := r.states(); run.Counts.Sent != int64(letters) || got[dlq.Waiting] != int64(letters) || len(got) != 1 {
		t.Errorf("%+v: %v", run.Counts, got)
	}
	if n := r.count(dlq.Filter{}); n != int64(letters) {
		t.Errorf("%d letters, want %d", n, letters)
	}
}
