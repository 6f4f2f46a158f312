package inboxtest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// A running consumer that an operator holds claims nothing more, with an error of
// class Down that says who and why; it goes on after the operator lets it. What
// starts meanwhile is held at once.
func hold(h *test) {
	operator := h.open(inbox.Config{}, 0)
	h.want(inbox.Processed, h.claim("before"), h.write("k"))
	yes, no := true, false
	row, err := operator.Change(h.ctx, h.consumer, inbox.Change{Hold: &yes}, note)
	if err != nil || !row.Held() || row.HeldBy != note.Who || row.HeldWhy != note.Why {
		h.Fatalf("row %+v, %v", row, err)
	}
	if again, err := operator.Change(h.ctx, h.consumer, inbox.Change{Hold: &yes}, note); err != nil || !again.HeldSince.Equal(row.HeldSince) {
		h.Errorf("held twice, since %s, before since %s, %v", again.HeldSince, row.HeldSince, err)
	}
	started := h.open(inbox.Config{}, 0)
	out, err := started.Do(h.ctx, h.claim("k"), h.never)
	h.isHeld(out, err)

	// The handler of a run from before the hold may still be called.
	for i := 0; ; i++ {
		out, err = h.box.Do(h.ctx, h.claim("before"), h.never)
		if err != nil {
			break
		}
	}
	h.isHeld(out, err)
	out, err = h.box.DoUnclaimed(h.ctx, h.consumer, h.never)
	h.isHeld(out, err)
	h.absent(h.claim("k"))

	if row, err := operator.Change(h.ctx, h.consumer, inbox.Change{Hold: &no}, note); err != nil || row.Held() || row.HeldWhy != "" {
		h.Fatalf("row %+v, %v", row, err)
	}
	for _, box := range []*inbox.Inbox{h.box, started} {
		for {
			out, err = box.Do(h.ctx, h.claim("k"), h.write("k"))
			if err == nil || h.ctx.Err() != nil {
				break
			}
			h.isHeld(out, err)
		}
	}
	h.effects("k", 2)
	h.wantActs("hold", "hold", "resume")
}

func (h *test) isHeld(out inbox.Outcome, err error) {
	h.Helper()
	h.checkErr(out, err, inbox.ClassDown, inbox.ErrHeld)
	if e := new(inbox.Error); !errors.As(err, &e) || e.Claimed || !strings.Contains(err.Error(), note.Who) || !strings.Contains(err.Error(), note.Why) {
		h.Errorf("error %v", err)
	}
}

// A rename moves the row and all claims, and the old name is remembered. It is
// refused where a claim could be left behind, and where the new name is in use.
func renaming(h *test) {
	from, to := h.consumer, h.consumer+"-new"
	keys := []string{"a", "b", "c"}
	for _, k := range keys {
		h.want(inbox.Processed, h.claim(k), h.write("k"))
	}
	taken := h.consumer + "-taken"
	h.register(h.box, taken)
	before := h.row(from)

	rename := func(box *inbox.Inbox, from, to string, stopped bool) (int64, error) {
		n := note
		n.Stopped = stopped
		return box.Rename(h.ctx, from, to, n)
	}
	for what, r := range map[string]struct {
		from, to string
		stopped  bool
	}{
		"a name that is taken": {from, taken, true}, "itself": {from, from, true}, "a name that is too long": {from, strings.Repeat("n", inbox.MaxConsumerBytes+1), true},
		"nobody": {from + "-nobody", to, true}, "a consumer that is not held": {from, to, false},
	} {
		_, err := rename(h.box, r.from, r.to, r.stopped)
		h.refused(what, err)
	}
	yes, no := true, false
	if _, err := h.box.Change(h.ctx, from, inbox.Change{Hold: &yes}, note); err != nil {
		h.Fatal(err)
	}
	_, err := rename(h.box, from, to, false)
	h.refused("a consumer that is held since a moment", err)
	if got := h.row(from); len(got.FormerNames) > 0 {
		h.Errorf("refused renames left %+v", got)
	}

	if h.s.c.Earlier != nil {
		if err := h.db.Outside(h.ctx, "UPDATE sekali_keeping SET held_since = "+h.s.c.Earlier("held_since", 300)+" WHERE consumer_name = '"+from+"'"); err != nil {
			h.Fatal(err)
		}
	}
	moved, err := rename(h.box, from, to, h.s.c.Earlier == nil)
	if err != nil || moved != int64(len(keys)) {
		h.Fatalf("moved %d claims, %v", moved, err)
	}
	after := h.row(to)
	if !slices.Equal(after.FormerNames, []string{from}) || !after.Horizon.Equal(before.Horizon) || after.Service != before.Service || !after.Held() {
		h.Errorf("row %+v", after)
	}
	if s, err := h.box.Stats(h.ctx, from); err != nil || s.Claims != 0 {
		h.Errorf("%d claims under the old name, %v", s.Claims, err)
	}
	err = h.box.Register(h.ctx, inbox.Consumer{Name: from})
	h.refused("an old deployment", err)
	if err == nil || !strings.Contains(err.Error(), to) {
		h.Errorf("an old deployment is told %v", err)
	}
	_, err = rename(h.box, taken, from, true)
	h.refused("a former name of another", err)

	if _, err := h.box.Change(h.ctx, to, inbox.Change{Hold: &no}, note); err != nil {
		h.Fatal(err)
	}
	h.register(h.box, to)
	for _, k := range keys {
		h.want(inbox.Duplicate, inbox.Claim{Consumer: to, Key: k}, h.never)
	}
	if moved, err := rename(h.box, to, from, true); err != nil || moved != int64(len(keys)) {
		h.Errorf("back: %d, %v", moved, err)
	}
	if got := h.row(from); !slices.Equal(got.FormerNames, []string{to}) {
		h.Errorf("back: %+v", got)
	}
	h.wantActs("hold", "rename", "resume", "rename")
}

// Claims that are in the table under a name that nobody registered are not merged
// into a consumer.
func renamingOntoClaims(h *test) {
	left := h.consumer + "-left"
	h.register(h.box, left)
	h.want(inbox.Processed, inbox.Claim{Consumer: left, Key: "k"}, h.write("k"))
	if err := h.db.Outside(h.ctx, "DELETE FROM sekali_consumers WHERE name = '"+left+"'"); err != nil {
		h.Fatal(err)
	}
	n := note
	n.Stopped = true
	_, err := h.box.Rename(h.ctx, h.consumer, left, n)
	h.refused("a name that has claims", err)
	h.want(inbox.Processed, h.claim("k"), func(context.Context) error { return nil })
}
