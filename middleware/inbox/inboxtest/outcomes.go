package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// The same key with other content is a conflict. A missing fingerprint, or one of
// another rule version, is not compared.
func fingerprints(h *test) {
	with := func(key string, fp []byte) inbox.Claim {
		c := h.claim(key)
		c.Fingerprint = fp
		return c
	}
	a, b := inbox.Fingerprint([]byte("a")), inbox.Fingerprint([]byte("b"))
	otherVersion := append([]byte{a[0] + 1}, b[1:]...)
	h.want(inbox.Processed, with("k", a), h.write("k"))
	h.want(inbox.Duplicate, with("k", a), h.never)
	h.want(inbox.Duplicate, with("k", nil), h.never)
	h.want(inbox.Duplicate, with("k", otherVersion), h.never)
	out, err := h.do(h.box, with("k", b), h.never)
	if out != inbox.Conflict || !errors.Is(err, inbox.ErrConflict) || inbox.ClassOf(err) != inbox.ClassPermanent {
		h.Errorf("other content: %s, %v", out, err)
	}
	h.want(inbox.Processed, with("without", nil), h.write("without"))
	h.want(inbox.Duplicate, with("without", a), h.never)
	h.effects("k", 1)
	h.effects("without", 1)
}

// A message without a key, where that was chosen, runs in a transaction that is
// guarded and undone like any other.
func unclaimed(h *test) {
	for range 2 {
		out, err := h.box.DoUnclaimed(h.ctx, h.consumer, h.write("k"))
		if out != inbox.Unclaimed || err != nil {
			h.Fatalf("do unclaimed: %s, %v", out, err)
		}
	}
	h.effects("k", 2)
	cause := errors.New("no")
	out, err := h.box.DoUnclaimed(h.ctx, h.consumer, func(ctx context.Context) error {
		return errors.Join(h.write("undone")(ctx), cause)
	})
	h.checkErr(out, err, inbox.ClassPlain, cause)
	h.effects("undone", 0)
	out, err = h.box.DoUnclaimed(h.ctx, h.consumer, func(ctx context.Context) error { return h.db.Exec(ctx, "COMMIT") })
	h.checkErr(out, err, inbox.ClassPlain, nil)
}

// What was done before the inbox knew of it is claimed without a run.
func already(h *test) {
	box := h.open(inbox.Config{Already: func(ctx context.Context, c inbox.Claim) (bool, error) {
		if c.Key != "old" && c.Key != "new" {
			return false, nil
		}
		return c.Key == "old", h.write("asked")(ctx) // asked inside the transaction
	}}, 0)
	h.wantOn(box, inbox.Duplicate, h.claim("old"), h.never)
	h.wantOn(box, inbox.Duplicate, h.claim("old"), h.never)
	h.wantOn(box, inbox.Processed, h.claim("new"), h.write("new"))
	h.effects("asked", 2)
	h.effects("new", 1)
}

// A consumer that observes claims, but always runs.
func observe(h *test) {
	name := h.consumer + "-observe"
	if err := h.box.Register(h.ctx, inbox.Consumer{Name: name, Mode: inbox.Observe}); err != nil {
		h.Fatal(err)
	}
	c := inbox.Claim{Consumer: name, Key: "k"}
	h.want(inbox.Processed, c, h.write("k"))
	h.want(inbox.Processed, c, h.write("k"))
	h.effects("k", 2)
	recs, err := h.box.Lookup(h.ctx, c)
	if err != nil || !recs[0].Found {
		h.Errorf("look up: %v, %v", recs, err)
	}
}

// A look-up tells committed claims and the horizon of their consumers, in the
// order asked. A claim that is open is not there yet.
func lookup(h *test) {
	c := h.claim("k\x00") // stored as a hash
	c.Fingerprint = inbox.Fingerprint([]byte("a"))
	h.want(inbox.Processed, c, func(context.Context) error {
		if !h.s.c.OneWriter {
			h.absent(c)
		}
		return nil
	})
	recs, err := h.box.Lookup(h.ctx, h.claim("absent"), c, inbox.Claim{Consumer: "nobody", Key: "k"}, c)
	if err != nil {
		h.Fatal(err)
	}
	if len(recs) != 4 || recs[0].Found || !recs[1].Found || recs[2].Found || !recs[3].Found {
		h.Fatalf("records %+v", recs)
	}
	r := recs[1]
	if string(r.Fingerprint) != string(c.Fingerprint) || r.Split() {
		h.Errorf("fingerprint %x, want %x", r.Fingerprint, c.Fingerprint)
	}
	if r.ProcessedAt.IsZero() || r.Age < 0 || r.Age > patience || time.Since(r.ProcessedAt).Abs() > time.Hour {
		h.Errorf("processed at %s, age %s", r.ProcessedAt, r.Age)
	}
	if r.Horizon.IsZero() || r.Horizon.After(r.ProcessedAt) || !recs[0].Horizon.Equal(r.Horizon) {
		h.Errorf("horizon %s, processed at %s", r.Horizon, r.ProcessedAt)
	}
	if !recs[2].Horizon.IsZero() {
		h.Errorf("horizon of a consumer that is not registered: %s", recs[2].Horizon)
	}
}

// A look-up takes as many claims as it is given.
func lookupOfMany(h *test) {
	h.want(inbox.Processed, h.claim("1200"), h.write("k"))
	cs := make([]inbox.Claim, 1300)
	for i := range cs {
		cs[i] = h.claim(fmt.Sprint(i))
	}
	recs, err := h.box.Lookup(h.ctx, cs...)
	if err != nil {
		h.Fatal(err)
	}
	for i, r := range recs {
		if r.Claim.Key != fmt.Sprint(i) || r.Found != (i == 1200) {
			h.Fatalf("record %d: %+v", i, r)
		}
	}
}
