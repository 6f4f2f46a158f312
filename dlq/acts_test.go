package dlq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/internal/letter"
)

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
