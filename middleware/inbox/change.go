package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrHeld: an operator holds the consumer. Do claims nothing and returns it with
// class Down, so that deliveries are kept as in an outage.
var ErrHeld = errors.New("consumer is held by an operator")

// Change says what becomes of a consumer's row; nil fields stay as they are.
type Change struct {
	// Mode to switch to. Defaults to nil: as it is.
	Mode *Mode
	// KeyRule that the consumer's services may register with from now on. Keys of
	// the old and the new rule do not recognise each other's messages. Defaults to
	// nil: as it is.
	KeyRule *string
	// Horizon, only ever forward, and not into the future: absent claims from before
	// it prove nothing. For a table from which others have deleted. Defaults to nil:
	// as it is.
	Horizon *time.Time
	// Hold or resume. Defaults to nil: as it is.
	Hold *bool
}

// Change changes a consumer's row on purpose and returns it as it then is; what
// changed is in the audit. Running consumers go by the new row within 10 s, and no
// run is begun by an older one; runs that are under way end as they began. The new
// key rule counts at the next registration.
//
// A held consumer's deliveries are kept as in an outage: no claim, no attempt, no
// letter. Processes may be stopped and started meanwhile.
func (b *Inbox) Change(ctx context.Context, name string, ch Change, n Note) (row Consumer, err error) {
	err = b.keep(fmt.Sprintf("change consumer %q", name), func() (err error) {
		if err := n.check(); err != nil {
			return err
		}
		if ch == (Change{}) {
			return refuse("nothing to change: set Mode, KeyRule, Horizon or Hold")
		}
		row, err = b.store.Change(ctx, name, func(row Consumer, now time.Time) (Consumer, []Act, error) {
			return ch.edit(row, now, n)
		})
		return err
	})
	return row, err
}

func (ch Change) edit(row Consumer, now time.Time, n Note) (_ Consumer, acts []Act, err error) {
	changed := func(act, detail string) { acts = append(acts, n.act(act, row.Name, detail)) }
	if ch.Mode != nil && *ch.Mode != row.Mode {
		changed("mode", fmt.Sprintf("%s -> %s", row.Mode, *ch.Mode))
		row.Mode = *ch.Mode
	}
	if ch.KeyRule != nil {
		rule, err := canonical(*ch.KeyRule)
		if err != nil {
			return row, nil, err
		}
		if rule != row.KeyRule {
			changed("key-rule", fmt.Sprintf("%s -> %s", row.KeyRule, rule))
			row.KeyRule = rule
		}
	}
	if ch.Horizon != nil {
		to := ch.Horizon.Truncate(clockUnit)
		switch {
		case to.Before(row.Horizon.Truncate(clockUnit)):
			return row, nil, refuse("horizon %s is before %s, where it is: what was deleted up to there does not come back, it moves forward only", ch.Horizon.UTC().Format(time.RFC3339), row.Horizon.UTC().Format(time.RFC3339))
		case to.After(now):
			return row, nil, refuse("horizon %s is in the future: the database's clock says %s", ch.Horizon.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		case to.After(row.Horizon):
			changed("horizon", fmt.Sprintf("%s -> %s", row.Horizon.UTC().Format(time.RFC3339Nano), to.UTC().Format(time.RFC3339Nano)))
			row.Horizon = to
		}
	}
	if ch.Hold != nil {
		switch {
		case *ch.Hold:
			if !row.Held() {
				row.HeldSince = now
			}
			row.HeldBy, row.HeldWhy = n.Who, n.Why
			changed("hold", "")
		case row.Held():
			changed("resume", fmt.Sprintf("held since %s by %s: %s", row.HeldSince.UTC().Format(time.RFC3339), row.HeldBy, row.HeldWhy))
			row.HeldSince, row.HeldBy, row.HeldWhy = time.Time{}, "", ""
		}
	}
	return row, acts, nil
}

// clockUnit is the coarsest that the databases keep of a time.
const clockUnit = time.Millisecond

// canonical key rule, as Key.String writes it. Funcs are known to their services
// only.
func canonical(rule string) (string, error) {
	k, err := ParseKey(rule)
	switch {
	case errors.Is(err, ErrFuncKey):
		return rule, nil
	case err != nil:
		return "", refusal{err}
	}
	return k.String(), nil
}

// renameHold is for how long a consumer must have been held before it is renamed:
// after that no process has a claim of it open. The row is believed for twice
// modeAge after a look that may take LockWait; a run that began then waits that long
// for its turn, and has one deadline, or two where its first look contradicted
// itself.
func (b *Inbox) renameHold() time.Duration {
	return 2*modeAge + 2*b.config.LockWait + 2*b.config.Deadline + rollbackTimeout
}

// Rename gives a consumer another name: its row, where the old one becomes a
// former name, and all its claims move in one transaction. The new name must be
// free.
//
// The consumer must have been held (Change) for as long as a run that began before
// may take: 15 s, and twice LockWait and Deadline of this inbox, which must be no
// shorter than those of the services; 2 min 35 s with the defaults. A claim that is committed later would stay behind under the
// old name and a copy of its message would run again. Where no process of the
// consumer runs, say so in the note (Stopped) instead.
//
// It takes as long as the database takes to rewrite all claims of the consumer, and
// those stay locked. Afterwards the consumer is held still: deploy the new name,
// then resume. A process that comes back with the old name is refused.
func (b *Inbox) Rename(ctx context.Context, from, to string, n Note) (moved int64, err error) {
	err = b.keep(fmt.Sprintf("rename consumer %q to %q", from, to), func() error {
		if err := n.check(); err != nil {
			return err
		}
		if _, err := (Claim{Consumer: to, Key: "k"}).stored(); err != nil {
			return refusal{err}
		}
		if err := b.free(ctx, from, to); err != nil {
			return err
		}
		moved, err = b.store.Rename(ctx, from, func(row Consumer, now time.Time) (Consumer, []Act, error) {
			if !n.Stopped {
				if err := b.heldLongEnough(row, now); err != nil {
					return row, nil, err
				}
			}
			row.FormerNames = slices.DeleteFunc(slices.Clone(row.FormerNames), func(f string) bool { return f == to || f == from })
			row.FormerNames = append(row.FormerNames, from)
			row.Name = to
			return row, []Act{n.act("rename", to, from+" -> "+to)}, nil
		})
		return err
	})
	return moved, err
}

func (b *Inbox) heldLongEnough(row Consumer, now time.Time) error {
	need := b.renameHold()
	switch held := now.Sub(row.HeldSince); {
	case !row.Held():
		return refuse("the consumer is not held, so a claim could be committed under the old name: hold it, wait %s, or say in the note that all its processes are stopped", need)
	case held < need:
		return refuse("the consumer is held since %s only, so a run from before may still commit: try again in %s, or say in the note that all its processes are stopped", held.Round(time.Second), (need - held).Round(time.Second))
	}
	return nil
}

// free refuses a name that is in use, or was: letters carry the names under which
// they died.
func (b *Inbox) free(ctx context.Context, from, to string) error {
	if from == to {
		return refuse("both names are the same")
	}
	consumers, err := b.store.Consumers(ctx)
	if err != nil {
		return err
	}
	for _, c := range consumers {
		switch {
		case c.Name == to:
			return refuse("the name is taken, by queue %q of service %q: choose another", c.Queue, c.Service)
		case c.Name != from && slices.Contains(c.FormerNames, to):
			return refuse("the name is a former name of %q, and letters may carry it: choose another", c.Name)
		}
	}
	s, err := b.store.Stats(ctx, to)
	if err == nil && s.Claims > 0 {
		err = refuse("there are %d claims under that name, although no consumer has it: choose another", s.Claims)
	}
	return err
}
