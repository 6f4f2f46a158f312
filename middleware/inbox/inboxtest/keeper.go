package inboxtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

var note = inbox.Note{Who: "O'Hara", Why: `"it" \ was 😀 wrong`}

// acts of the test's consumer, or of one whose name begins with it, newest first.
func (h *test) acts() (mine []inbox.Act) {
	h.Helper()
	acts, err := h.box.Acts(h.ctx, 1000)
	if err != nil {
		h.Fatal(err)
	}
	for _, a := range acts {
		if a.Consumer != h.consumer && !strings.HasPrefix(a.Consumer, h.consumer+"-") {
			continue
		}
		if a.Who != note.Who || a.Why != note.Why || time.Since(a.At).Abs() > time.Hour {
			h.Errorf("act %+v, want one of %+v", a, note)
		}
		mine = append(mine, a)
	}
	return mine
}

// wantActs fails the test unless these are the acts, oldest first.
func (h *test) wantActs(want ...string) {
	h.Helper()
	var got []string
	for _, a := range slices.Backward(h.acts()) {
		got = append(got, a.Act)
	}
	if !slices.Equal(got, want) {
		h.Errorf("audit %q, want %q", got, want)
	}
}

func (h *test) refused(what string, err error) {
	h.Helper()
	if inbox.ClassOf(err) != inbox.ClassConfig {
		h.Errorf("%s: class %s, %v; want a refusal", what, inbox.ClassOf(err), err)
	}
}

// row of the test's consumer, which must be there.
func (h *test) row(name string) inbox.Consumer {
	h.Helper()
	c, ok, err := h.box.Consumer(h.ctx, name)
	if err != nil || !ok {
		h.Fatalf("consumer %q: %v, %v", name, ok, err)
	}
	return c
}

// The registry is read as it was written, ordered by name, byte by byte.
func registryIsRead(h *test) {
	for _, name := range []string{h.consumer + "-b", h.consumer + "-é", h.consumer + "-B", h.consumer + "-a"} {
		if err := h.box.Register(h.ctx, inbox.Consumer{Name: name, Queue: "q '\\ ☂", KeyRule: "message-id", Mode: inbox.Observe}); err != nil {
			h.Fatal(err)
		}
	}
	cs, err := h.box.Consumers(h.ctx)
	if err != nil {
		h.Fatal(err)
	}
	var names []string
	for _, c := range cs {
		if !strings.HasPrefix(c.Name, h.consumer+"-") {
			continue
		}
		names = append(names, strings.TrimPrefix(c.Name, h.consumer))
		if c.Service != "inboxtest" || c.Queue != "q '\\ ☂" || c.KeyRule != "message-id" || c.Mode != inbox.Observe || c.Horizon.IsZero() || c.FormerNames != nil || c.Held() {
			h.Errorf("row %+v", c)
		}
	}
	if want := []string{"-B", "-a", "-b", "-é"}; !slices.Equal(names, want) {
		h.Errorf("names %q, want %q", names, want)
	}
	if c := h.row(h.consumer + "-é"); c.Queue != "q '\\ ☂" {
		h.Errorf("row %+v", c)
	}
	if _, ok, err := h.box.Consumer(h.ctx, h.consumer+"-nobody"); ok || err != nil {
		h.Errorf("a name that nobody has: %v, %v", ok, err)
	}
}

// Claims are found by the key as the table has it: what StoredKey gave is not
// turned into a hash once more.
func claimsOfAKey(h *test) {
	other := h.consumer + "-2"
	h.register(h.box, other)
	for _, key := range []string{"plain", "a\x00b", "sha256:x"} {
		for _, consumer := range []string{h.consumer, other} {
			h.want(inbox.Processed, inbox.Claim{Consumer: consumer, Key: h.effect(key)}, h.write("k"))
		}
		stored := inbox.StoredKey(h.effect(key))
		found, err := h.box.Claims(h.ctx, stored)
		if err != nil || len(found) != 2 || found[0].Claim.Consumer != h.consumer || found[1].Claim.Consumer != other || found[1].ProcessedAt.IsZero() || found[1].Horizon.IsZero() {
			h.Errorf("claims of %q: %+v, %v", key, found, err)
		}
		recs, err := h.box.LookupStored(h.ctx, inbox.Claim{Consumer: other, Key: stored}, inbox.Claim{Consumer: "nobody", Key: stored})
		if err != nil || !recs[0].Found || recs[1].Found {
			h.Errorf("look up %q as stored: %+v, %v", key, recs, err)
		}
	}
	if found, err := h.box.Claims(h.ctx, h.effect("absent")); len(found) != 0 || err != nil {
		h.Errorf("claims of an absent key: %+v, %v", found, err)
	}
	_, err := h.box.LookupStored(h.ctx, h.claim(strings.Repeat("x", inbox.MaxKeyBytes+1)))
	h.refused("a key that no table can have", err)
}

// The number of claims and their times are told by the database's clock.
func stats(h *test) {
	s, err := h.box.Stats(h.ctx, h.consumer)
	if err != nil || s.Claims != 0 || s.Splits != 0 || !s.Oldest.IsZero() || !s.Newest.IsZero() {
		h.Errorf("before the first claim: %+v, %v", s, err)
	}
	for _, k := range []string{"a", "b", "c"} {
		h.want(inbox.Processed, h.claim(k), h.write("k"))
	}
	splits := int64(0)
	if h.db.Raw != nil {
		splits = 1
		h.split("d")
	}
	recs, err := h.box.Lookup(h.ctx, h.claim("a"), h.claim("c"))
	if err != nil {
		h.Fatal(err)
	}
	s, err = h.box.Stats(h.ctx, h.consumer)
	if err != nil || s.Claims != 3+splits || s.Splits != splits || !s.Oldest.Equal(recs[0].ProcessedAt) || s.Newest.Before(recs[1].ProcessedAt) || s.Now.Before(s.Newest) || s.Now.Sub(s.Newest) > patience {
		h.Errorf("%+v, %v; first claim at %s", s, err, recs[0].ProcessedAt)
	}
}

// split leaves a claim that is marked split.
func (h *test) split(key string) {
	h.Helper()
	h.wantErr(inbox.ClassPermanent, inbox.ErrSplit, h.claim(key), func(ctx context.Context) error { return h.db.Raw(ctx, "COMMIT") })
}

// One claim is deleted on purpose, with an act in the audit that says what it was;
// the next copy runs. There is no act without a claim.
func forgetting(h *test) {
	c := h.claim("a\x00b")
	c.Fingerprint = inbox.Fingerprint([]byte("a"))
	stored := inbox.Claim{Consumer: h.consumer, Key: inbox.StoredKey(c.Key)}
	h.want(inbox.Processed, c, h.write("k"))
	h.want(inbox.Processed, h.claim("other"), h.write("k"))
	for what, n := range map[string]inbox.Note{"nobody": {Why: "w"}, "no reason": {Who: "w", Why: " \n"}, "NUL": {Who: "w", Why: "a\x00"}} {
		_, err := h.box.Forget(h.ctx, stored, n)
		h.refused(what, err)
	}
	for _, want := range []bool{true, false} {
		if ok, err := h.box.Forget(h.ctx, stored, note); ok != want || err != nil {
			h.Errorf("forget: %v, %v, want %v", ok, err, want)
		}
	}
	h.want(inbox.Processed, c, h.write("k"))
	h.want(inbox.Duplicate, h.claim("other"), h.never)
	h.effects("k", 3)
	h.wantActs("forget")
	if a := h.acts()[0]; a.Key != stored.Key || !strings.Contains(a.Detail, "fingerprint 01") || strings.Contains(a.Detail, "split") {
		h.Errorf("act %+v", a)
	}
	if h.db.Raw == nil {
		return
	}
	h.split("split")
	if ok, err := h.box.Forget(h.ctx, h.claim("split"), note); !ok || err != nil {
		h.Errorf("forget a split claim: %v, %v", ok, err)
	}
	h.want(inbox.Processed, h.claim("split"), h.write("after"))
	if a := h.acts()[0]; !strings.Contains(a.Detail, "split") {
		h.Errorf("act %+v", a)
	}
}

// Mode, key rule and horizon change on purpose, each with an act; the horizon
// forward only. What cannot be is refused and leaves nothing.
func changes(h *test) {
	name := h.consumer + "-c"
	if err := h.box.Register(h.ctx, inbox.Consumer{Name: name, KeyRule: "message-id"}); err != nil {
		h.Fatal(err)
	}
	before := h.row(name)
	mode, rule, custom, bad, empty := inbox.Observe, " header:event_id ,message-id", "func:mine", "header:", ""
	forward, back, future := before.Horizon.Add(time.Millisecond), before.Horizon.Add(-time.Hour), before.Horizon.Add(24*time.Hour)
	for what, c := range map[string]inbox.Change{
		"nothing": {}, "a rule that is none": {KeyRule: &bad}, "an empty rule": {KeyRule: &empty},
		"horizon back": {Horizon: &back, Mode: &mode}, "horizon in the future": {Horizon: &future},
	} {
		_, err := h.box.Change(h.ctx, name, c, note)
		h.refused(what, err)
	}
	_, err := h.box.Change(h.ctx, name, inbox.Change{Mode: &mode}, inbox.Note{Who: "x"})
	h.refused("no reason", err)
	_, err = h.box.Change(h.ctx, name+"-nobody", inbox.Change{Mode: &mode}, note)
	h.refused("nobody's row", err)
	if !errors.Is(err, inbox.ErrNotRegistered) {
		h.Errorf("nobody's row: %v", err)
	}
	if after := h.row(name); after.Mode != inbox.Enforce || !after.Horizon.Equal(before.Horizon) || after.KeyRule != "message-id" {
		h.Errorf("refused changes left %+v", after)
	}
	h.wantActs()

	got, err := h.box.Change(h.ctx, name, inbox.Change{Mode: &mode, KeyRule: &rule, Horizon: &forward}, note)
	if err != nil {
		h.Fatal(err)
	}
	after := h.row(name)
	if after.Mode != inbox.Observe || after.KeyRule != "header:event_id, message-id" || !after.Horizon.Equal(forward.Truncate(time.Millisecond)) || after.Queue != before.Queue || after.Service != before.Service {
		h.Errorf("row %+v, want horizon %s", after, forward)
	}
	if got.Mode != after.Mode || !got.Horizon.Equal(after.Horizon) || got.KeyRule != after.KeyRule {
		h.Errorf("told %+v, is %+v", got, after)
	}
	h.wantActs("mode", "key-rule", "horizon")
	if _, err := h.box.Change(h.ctx, name, inbox.Change{Mode: &mode}, note); err != nil {
		h.Error(err)
	}
	h.wantActs("mode", "key-rule", "horizon") // nothing changed
	if a := h.acts()[2]; a.Detail != "enforce -> observe" {
		h.Errorf("act %+v", a)
	}
	h.refused("the old key rule", h.box.Register(h.ctx, inbox.Consumer{Name: name, KeyRule: "message-id"}))
	if err := h.box.Register(h.ctx, inbox.Consumer{Name: name, KeyRule: "header:event_id, message-id"}); err != nil {
		h.Errorf("the new key rule: %v", err)
	}
	if _, err := h.box.Change(h.ctx, name, inbox.Change{KeyRule: &custom}, note); err != nil {
		h.Errorf("a func's rule: %v", err)
	}
}

// Acts are told newest first, at most as many as asked for.
func actsNewestFirst(h *test) {
	hold := true
	for range 3 {
		if _, err := h.box.Change(h.ctx, h.consumer, inbox.Change{Hold: &hold}, note); err != nil {
			h.Fatal(err)
		}
		hold = !hold
	}
	acts, err := h.box.Acts(h.ctx, 2)
	if err != nil || len(acts) != 2 || acts[0].Act != "hold" || acts[1].Act != "resume" || acts[0].At.Before(acts[1].At) {
		h.Errorf("acts %+v, %v", acts, err)
	}
}
