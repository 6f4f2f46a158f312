package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// quick are options that make many small steps.
func quick() inbox.PurgeOptions {
	return inbox.PurgeOptions{Keep: time.Hour, Batch: 4, Pause: -1}
}

// aged claims as many keys, and makes them two hours old.
func (h *test) aged(consumer string, keys ...string) {
	h.Helper()
	for _, k := range keys {
		h.want(inbox.Processed, inbox.Claim{Consumer: consumer, Key: k}, func(context.Context) error { return nil })
	}
	h.age(consumer, keys...)
}

func (h *test) age(consumer string, keys ...string) {
	h.Helper()
	err := h.db.Outside(h.ctx, "UPDATE processed_messages SET processed_at = "+h.s.c.Earlier("processed_at", 7200)+
		" WHERE consumer_name = '"+consumer+"' AND message_key IN ('"+strings.Join(keys, "', '")+"')")
	if err != nil {
		h.Fatal(err)
	}
}

// longAtWork puts the horizon before all claims.
func (h *test) longAtWork() {
	h.Helper()
	if err := h.db.Outside(h.ctx, "UPDATE sekali_consumers SET horizon = "+h.s.c.Earlier("horizon", 36000)+" WHERE name = '"+h.consumer+"'"); err != nil {
		h.Fatal(err)
	}
}

// numbered keys, in order.
func numbered(prefix string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s%03d", prefix, i)
	}
	return keys
}

func (h *test) purge(o inbox.PurgeOptions) inbox.Purged {
	h.Helper()
	p, err := h.box.Purge(h.ctx, h.consumer, o)
	if err != nil {
		h.Fatalf("purge: %v", err)
	}
	return p
}

// left fails the test unless exactly these keys have claims.
func (h *test) left(consumer string, keys, gone []string) {
	h.Helper()
	for want, keys := range map[bool][]string{true: keys, false: gone} {
		cs := make([]inbox.Claim, len(keys))
		for i, k := range keys {
			cs[i] = inbox.Claim{Consumer: consumer, Key: k}
		}
		recs, err := h.box.Lookup(h.ctx, cs...)
		if err != nil {
			h.Fatal(err)
		}
		for _, r := range recs {
			if r.Found != want {
				h.Errorf("claim %s: found %v, want %v", r.Claim, r.Found, want)
			}
		}
	}
}

// A purge deletes exactly the claims of its consumer that are older than it keeps,
// and moves the horizon to the cut-off. Deleted messages run again.
func purgeDeletesWhatIsOld(h *test) {
	other := h.consumer + "-2"
	h.register(h.box, other)
	old, young := numbered("é %_-", 13), numbered("é %_-0", 9)
	h.aged(h.consumer, old...)
	h.aged(other, old...)
	for _, k := range young {
		h.want(inbox.Processed, h.claim(k), h.write("k"))
	}
	h.longAtWork()
	before := h.row(h.consumer)
	var steps []inbox.Purged
	o := quick()
	o.Progress = func(p inbox.Purged) { steps = append(steps, p) }
	p := h.purge(o)
	if p.Deleted != 13 || p.Looked != 22 || p.Kept != 0 || p.Splits != 0 || p.Busy || !p.Horizon.Equal(p.Cutoff) {
		h.Errorf("purged %+v", p)
	}
	if len(steps) < 22/4 || steps[0].Looked != 4 || steps[len(steps)-1] != p {
		h.Errorf("steps %+v", steps)
	}
	h.left(h.consumer, young, old)
	h.left(other, old, nil)
	after := h.row(h.consumer)
	if !after.Horizon.Equal(p.Cutoff) || before.Horizon.Equal(p.Cutoff) {
		h.Errorf("horizon %s, cut-off %s", after.Horizon, p.Cutoff)
	}
	if c := h.row(other); c.Horizon.Equal(p.Cutoff) {
		h.Errorf("horizon of the other consumer %s", c.Horizon)
	}
	h.want(inbox.Processed, h.claim(old[0]), h.write("again"))
	h.want(inbox.Duplicate, h.claim(young[0]), h.never)
}

// A purge that finds nothing old leaves the horizon, and none moves it back.
func purgeMovesTheHorizonForwardOnly(h *test) {
	h.want(inbox.Processed, h.claim("young"), h.write("k"))
	before := h.row(h.consumer)
	if p := h.purge(quick()); p.Deleted != 0 || p.Looked != 1 || !p.Horizon.Equal(before.Horizon) {
		h.Errorf("purged %+v, horizon was %s", p, before.Horizon)
	}
	if got := h.row(h.consumer); !got.Horizon.Equal(before.Horizon) {
		h.Errorf("horizon %s, was %s", got.Horizon, before.Horizon)
	}
	// The consumer is younger than its oldest claims: the horizon is later than the
	// cut-off, and stays.
	h.aged(h.consumer, "old")
	if p := h.purge(quick()); p.Deleted != 1 || p.Horizon.Before(before.Horizon) {
		h.Errorf("purged %+v, horizon was %s", p, before.Horizon)
	}
	if got := h.row(h.consumer); !got.Horizon.Equal(before.Horizon) {
		h.Errorf("horizon %s, was %s", got.Horizon, before.Horizon)
	}
}

// Claims that are held back stay and are counted; those marked split stay unless
// they are let go by name.
func purgeKeepsWhatIsHeld(h *test) {
	keys := numbered("k", 10)
	h.aged(h.consumer, keys...)
	splits := int64(0)
	if h.db.Raw != nil {
		splits = 1
		h.split("split")
		h.age(h.consumer, "split")
	}
	o := quick()
	o.Hold = func(ctx context.Context, cs []inbox.Claim) ([]bool, error) {
		if _, err := inbox.Tx(ctx); !errors.Is(err, inbox.ErrNoTx) {
			h.Errorf("asked in a transaction: %v", err)
		}
		stay := make([]bool, len(cs))
		for i, c := range cs {
			stay[i] = c.Key == "k003" || c.Key == "k008" || c.Key == "split"
		}
		return stay, nil
	}
	if p := h.purge(o); p.Deleted != 8 || p.Kept != 2 || p.Splits != splits {
		h.Errorf("purged %+v", p)
	}
	if p := h.purge(quick()); p.Deleted != 2 || p.Kept != 0 || p.Splits != splits {
		h.Errorf("purged %+v", p)
	}
	o.Hold = func(_ context.Context, cs []inbox.Claim) ([]bool, error) { return make([]bool, len(cs)), nil }
	if p := h.purge(o); p.Deleted != splits || p.Splits != 0 {
		h.Errorf("purged %+v", p)
	}

	h.aged(h.consumer, keys...)
	cause := errors.New("no")
	o.Hold = func(context.Context, []inbox.Claim) ([]bool, error) { return nil, cause }
	if p, err := h.box.Purge(h.ctx, h.consumer, o); !errors.Is(err, cause) || p.Deleted != 0 {
		h.Errorf("purged %+v, %v", p, err)
	}
	o.Hold = func(context.Context, []inbox.Claim) ([]bool, error) { return nil, nil }
	_, err := h.box.Purge(h.ctx, h.consumer, o)
	h.refused("no answer", err)
	h.left(h.consumer, keys, nil)
}

// A claim that is made while a purge is at work stays, also where the old one of
// its key was just deleted; and one that was split meanwhile stays.
func purgeSparesNewClaims(h *test) {
	keys := numbered("k", 12)
	h.aged(h.consumer, keys...)
	steps := 0
	o := quick()
	o.Progress = func(p inbox.Purged) {
		if steps++; steps > 3 {
			return
		}
		for _, key := range []string{"a", "k0005", "z"} {
			h.want(inbox.Processed, h.claim(fmt.Sprint(key, "-", p.Looked)), h.write("k"))
		}
		h.want(inbox.Processed, h.claim("k000-again-"+fmt.Sprint(p.Looked)), h.write("k"))
		if steps == 1 {
			h.want(inbox.Processed, h.claim("k001"), h.write("k"))
		}
	}
	if p := h.purge(o); p.Deleted != 12 {
		h.Errorf("purged %+v", p)
	}
	h.left(h.consumer, []string{"a-4", "k0005-4", "z-4", "k001", "k000-again-4", "a-8"}, []string{"k000", "k002", "k011"})
}

// A look-up during a purge never finds no claim together with a horizon that would
// make it proof.
func lookupsDuringAPurge(h *test) {
	keys := numbered("k", 40)
	for _, k := range keys {
		h.want(inbox.Processed, h.claim(k), h.write("k"))
	}
	h.longAtWork()
	h.age(h.consumer, keys...)
	cs := make([]inbox.Claim, len(keys))
	for i, k := range keys {
		cs[i] = h.claim(k)
	}
	before, err := h.box.Lookup(h.ctx, cs...)
	if err != nil {
		h.Fatal(err)
	}
	looker := h.open(inbox.Config{}, 0)
	ended := make(chan struct{})
	var looks atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				recs, err := looker.Lookup(h.ctx, cs...)
				if err != nil {
					h.Errorf("look up: %v", err)
					return
				}
				for i, r := range recs {
					if !r.Found && !r.Horizon.After(before[i].ProcessedAt) {
						h.Errorf("%s: no claim, and horizon %s although it was processed at %s", r.Claim, r.Horizon, before[i].ProcessedAt)
						return
					}
				}
				looks.Add(1)
				select {
				case <-ended:
					return
				default:
				}
			}
		})
	}
	o := quick()
	o.Batch = 1
	o.Progress = func(inbox.Purged) {
		// Some looks fall between the steps.
		for n := looks.Load(); looks.Load() < n+1 && h.ctx.Err() == nil && !h.Failed(); {
			runtime.Gosched()
		}
	}
	p := h.purge(o)
	close(ended)
	wg.Wait()
	if p.Deleted != 40 {
		h.Errorf("purged %+v", p)
	}
}

// Of two purgers of one consumer one finds the other at work, which is no error;
// together they delete each claim once. What one leaves the next one takes.
func purgersAtOnce(h *test) {
	h.aged(h.consumer, numbered("k", 20)...)
	second := h.open(inbox.Config{}, 0)
	o := quick()
	asked := false
	o.Progress = func(inbox.Purged) {
		if asked {
			return
		}
		asked = true
		if p, err := second.Purge(h.ctx, h.consumer, quick()); err != nil || !p.Busy || p.Deleted != 0 || p.Looked != 0 {
			h.Errorf("beside another: %+v, %v", p, err)
		}
	}
	if p := h.purge(o); p.Deleted != 20 || p.Busy {
		h.Errorf("purged %+v", p)
	}
	if p, err := second.Purge(h.ctx, h.consumer, quick()); err != nil || p.Busy {
		h.Errorf("after another: %+v, %v", p, err)
	}

	const purgers = 4
	h.aged(h.consumer, numbered("m", 20)...)
	var deleted, worked atomic.Int64
	var wg sync.WaitGroup
	for range purgers {
		box := h.open(inbox.Config{}, 0)
		wg.Go(func() {
			p, err := box.Purge(h.ctx, h.consumer, quick())
			if err != nil {
				h.Errorf("at once: %v", err)
			}
			deleted.Add(p.Deleted)
			if !p.Busy {
				worked.Add(1)
			}
		})
	}
	wg.Wait()
	if deleted.Load() != 20 || worked.Load() == 0 {
		h.Errorf("%d purgers deleted %d claims of 20", worked.Load(), deleted.Load())
	}
}

// Handlers go on while a purge deletes: new keys between the deleted ones are
// claimed at once although its transaction is open, and an open claim of such a key
// does not stop it.
func purgeBesideHandlers(h *test) {
	keys := numbered("k", 12)
	h.aged(h.consumer, keys...)
	o := quick()
	o.Batch = len(keys)
	purged := make(chan inbox.Purged, 1)
	h.want(inbox.Processed, h.claim("k005-open"), func(ctx context.Context) error {
		// The last one that the purge comes to is locked, so that its transaction stays
		// open with all others deleted.
		if err := h.db.Exec(ctx, "UPDATE processed_messages SET processed_at = processed_at WHERE consumer_name = '"+h.consumer+"' AND message_key = 'k011'"); err != nil {
			return err
		}
		go func() {
			p, err := h.box.Purge(h.ctx, h.consumer, o)
			if err != nil {
				h.Errorf("purge: %v", err)
			}
			purged <- p
		}()
		h.waiting()
		short := h.open(inbox.Config{LockWait: time.Second}, 0)
		for _, key := range []string{"a", "k001-new", "k006-new", "k010-new", "k0105", "z"} {
			if out, err := short.Do(h.ctx, h.claim(key), h.write("k")); out != inbox.Processed {
				h.Errorf("claim %q beside the open purge: %s, %v", key, out, err)
			}
		}
		select {
		case p := <-purged:
			h.Errorf("the purge did not wait: %+v", p)
			purged <- p
		default:
		}
		return nil
	})
	select {
	case p := <-purged:
		if p.Deleted != int64(len(keys)) {
			h.Errorf("purged %+v", p)
		}
	case <-h.ctx.Done():
		h.Fatal("the purge did not end")
	}
	h.left(h.consumer, []string{"k005-open", "k001-new", "k010-new", "a", "z"}, keys)

	h.aged(h.consumer, keys...)
	h.want(inbox.Processed, h.claim("k007-open"), func(context.Context) error {
		if p := h.purge(quick()); p.Deleted != int64(len(keys)) {
			h.Errorf("beside an open claim: %+v", p)
		}
		return nil
	})
}

// A purger that is stopped leaves what it did, and keeps nobody out.
func purgeIsCancelled(h *test) {
	h.aged(h.consumer, numbered("k", 20)...)
	ctx, cancel := context.WithCancel(h.ctx)
	o := quick()
	o.Progress = func(inbox.Purged) { cancel() }
	p, err := h.box.Purge(ctx, h.consumer, o)
	if inbox.ClassOf(err) != inbox.ClassCancelled || !errors.Is(err, context.Canceled) || p.Deleted != 4 {
		h.Errorf("cancelled: %+v, class %s, %v", p, inbox.ClassOf(err), err)
	}
	if p := h.purge(quick()); p.Deleted != 16 || p.Busy {
		h.Errorf("purged %+v", p)
	}
}

// Nothing that is younger than asked for goes, an operator's purge is in the audit,
// and who does not say how old is refused.
func purgeBounds(h *test) {
	h.aged(h.consumer, "old")
	before, err := h.box.Lookup(h.ctx, h.claim("old"))
	if err != nil {
		h.Fatal(err)
	}
	o := quick()
	o.Until = before[0].ProcessedAt.Add(-time.Second)
	if p := h.purge(o); p.Deleted != 0 || p.Cutoff.After(o.Until) {
		h.Errorf("purged %+v, until %s", p, o.Until)
	}
	o.Until = before[0].ProcessedAt.Add(2 * time.Second)
	if p := h.purge(o); p.Deleted != 1 {
		h.Errorf("purged %+v, until %s", p, o.Until)
	}
	h.wantActs() // by the clock
	o.Note = note
	h.purge(o)
	h.wantActs("purge")
	if a := h.acts()[0]; !strings.Contains(a.Detail, "1h") {
		h.Errorf("act %+v", a)
	}
	for what, o := range map[string]inbox.PurgeOptions{
		"nothing": {}, "less than nothing": {Keep: -1}, "a negative batch": {Keep: 1, Batch: -1}, "half a note": {Keep: 1, Note: inbox.Note{Who: "x"}},
	} {
		_, err := h.box.Purge(h.ctx, h.consumer, o)
		h.refused(what, err)
	}
	_, err = h.box.Purge(h.ctx, h.consumer+"-nobody", quick())
	h.refused("a consumer that nobody registered", err)
}

// purges are left out where the suite cannot make claims older.
var purges = []string{
	"PurgeDeletesWhatIsOld", "PurgeMovesTheHorizonForwardOnly", "PurgeKeepsWhatIsHeld", "PurgeSparesNewClaims", "LookupsDuringAPurge",
	"PurgersAtOnce", "PurgeBesideHandlers", "PurgeIsCancelled", "PurgeBounds",
}

func (c Config) cannotAge(name string) bool { return c.Earlier == nil && slices.Contains(purges, name) }
