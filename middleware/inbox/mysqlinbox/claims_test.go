package mysqlinbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/mysqlinbox"
)

// One Begin takes several claims: those that are there already are told from the
// new ones, also when all or none are, and a second copy in the group is not new.
func TestClaimsOfAGroup(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			_, db, dsn := stock(t, v, v.config)
			store, err := mysqlinbox.OpenStore(t.Context(), openDB(t, v.source(t, dsn, v.config)), v.config, v.plain)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				keys []string
				want string // N new, F found
			}{
				{[]string{"c", "a", "b"}, "NNN"},
				{[]string{"d", "b", "e", "a", "d"}, "NFNFF"},
				{[]string{"a", "b", "c"}, "FFF"},
				{[]string{"b"}, "F"},
				{nil, ""},
			} {
				cs := make([]inbox.Claim, len(c.keys))
				for i, k := range c.keys {
					cs[i] = claim(k)
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				sess, recs, err := store.Begin(ctx, cs, inbox.BeginOptions{LockWait: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				got := ""
				for i, r := range recs {
					if r.Claim.Key != c.keys[i] || time.Since(r.ProcessedAt).Abs() > time.Minute {
						t.Errorf("record %d: %+v", i, r)
					}
					got += map[[2]bool]string{{true, false}: "N", {false, true}: "F"}[[2]bool{r.New, r.Found}]
				}
				if got != c.want {
					t.Errorf("%v: %s, want %s", c.keys, got, c.want)
				}
				if err := sess.Commit(ctx); err != nil {
					t.Errorf("commit: %v", err)
				}
				cancel()
			}
			if n := count(t, db, "SELECT count(*) FROM processed_messages"); n != 5 {
				t.Errorf("%d claims", n)
			}
		})
	}
}

// Nothing of a group is claimed while another transaction holds one of its
// claims, and the wait is the one that was asked for.
func TestClaimsOfAGroupAreHeld(t *testing.T) {
	for _, v := range variants[:4] {
		t.Run(v.name, func(t *testing.T) {
			box, db, dsn := stock(t, v, v.config)
			store, err := mysqlinbox.OpenStore(t.Context(), openDB(t, v.source(t, dsn, v.config)), v.config, v.plain)
			if err != nil {
				t.Fatal(err)
			}
			out, err := box.Do(t.Context(), claim("held"), func(ctx context.Context) error {
				for _, wait := range []time.Duration{0, 100 * time.Millisecond} {
					begun := time.Now()
					_, _, err := store.Begin(ctx, []inbox.Claim{claim("free"), claim("held")}, inbox.BeginOptions{LockWait: wait})
					if !errors.Is(err, inbox.ErrBusy) {
						return fmt.Errorf("wait %s: %w", wait, err)
					}
					if took := time.Since(begun); took > 5*time.Second {
						t.Errorf("waited %s for %s", took, wait)
					}
				}
				return nil
			})
			if out != inbox.Processed {
				t.Errorf("%s, %v", out, err)
			}
			if n := count(t, db, "SELECT count(*) FROM processed_messages"); n != 1 {
				t.Errorf("%d claims", n)
			}
		})
	}
}

// A fingerprint that the column would cut is refused: cut, it would make every
// later copy a conflict.
func TestLongFingerprint(t *testing.T) {
	box, _, _ := stock(t, variant{}, mysqlinbox.Config{})
	c := claim("k")
	c.Fingerprint = make([]byte, 256)
	if out, err := box.Do(t.Context(), c, never(t)); out != inbox.Failed || inbox.ClassOf(err) != inbox.ClassPermanent {
		t.Errorf("%s, class %s, %v", out, inbox.ClassOf(err), err)
	}
}
