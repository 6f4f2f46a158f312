package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Keeper is the part of a Store that serves the operator: the registry, single
// claims, retention, and the audit of all that was changed on purpose. None of
// it runs while a message is handled.
//
// All methods must be safe for concurrent use. What a method changes must be
// committed together with the acts it is given, or not at all. Times are those of
// the database's clock, never of this process. Keys are in their stored form.
type Keeper interface {
	// Clock reads the database's clock.
	Clock(ctx context.Context) (time.Time, error)

	// Consumers reads the whole registry, ordered by name, byte by byte.
	Consumers(ctx context.Context) ([]Consumer, error)

	// Stats counts the consumer's claims, in one statement.
	Stats(ctx context.Context, consumer string) (Stats, error)

	// Acts reads the audit, newest first, at most limit acts.
	Acts(ctx context.Context, limit int) ([]Act, error)

	// Forget deletes the claim, marked split or not, and writes an act for it;
	// Detail must say what the claim was. ok is false, and nothing is written, when
	// there is no such claim. A claim that is open must be waited for, or left.
	Forget(ctx context.Context, c Claim, a Act) (ok bool, err error)

	// Change locks the consumer's row, hands it to edit, and writes what edit
	// returns: key rule, mode, horizon, hold and former names; the rest must stay. It
	// returns the row as it then is. edit must not be called when there is no such
	// row: the error wraps ErrNotRegistered. edit's errors must come back wrapped or
	// as they are; nothing is written then. edit may be called more than once.
	Change(ctx context.Context, name string, edit EditConsumer) (Consumer, error)

	// Rename is Change, and moves the row and all claims to the name of the row that
	// edit returns, in the same transaction. It returns the number of claims. No
	// claim that is committed when it begins may be left under the old name.
	Rename(ctx context.Context, name string, edit EditConsumer) (moved int64, err error)

	// PurgeWindow reads the next claims of a consumer, in the order of the table's
	// key. It must lock nothing.
	PurgeWindow(ctx context.Context, w PurgeWindow) ([]PurgeCandidate, error)

	// PurgeStep is one short transaction of a purge, at READ COMMITTED: it locks the
	// consumer's row, sees that no other purger is at work, moves the horizon to the
	// cut-off unless it is later already, and only then deletes. Claims of other keys
	// must not wait for it.
	PurgeStep(ctx context.Context, s PurgeStep) (PurgeResult, error)
}

// EditConsumer decides what becomes of a registry row. now is the database's
// clock. The acts need no time.
type EditConsumer func(row Consumer, now time.Time) (Consumer, []Act, error)

// Note says who changed something on purpose, and why. Both are required, and
// are kept in the audit as they are: no passwords.
type Note struct {
	// Who is a person or a program. Required.
	Who string
	// Why in words. Required.
	Why string
	// Stopped says, to Rename only, that no process of the consumer runs, so that
	// there is no hold to wait for. Defaults to false.
	Stopped bool
}

// act of this note.
func (n Note) act(act, consumer, detail string) Act {
	return Act{Who: n.Who, Why: n.Why, Act: act, Consumer: consumer, Detail: detail}
}

func (n Note) check() error {
	for _, f := range []struct{ name, text string }{{"Who", n.Who}, {"Why", n.Why}} {
		switch {
		case strings.TrimSpace(f.text) == "":
			return refuse("%s of the note is empty: an act on purpose says who and why", f.name)
		case !utf8.ValidString(f.text) || strings.ContainsRune(f.text, 0):
			return refuse("%s of the note, %q, must be UTF-8 without NUL", f.name, f.text)
		}
	}
	return nil
}

// Act is one row of the audit, which is only ever added to (table sekali_audit).
type Act struct {
	// At by the database's clock.
	At time.Time
	// Who did it, and Why, as they noted it.
	Who, Why string
	// Act is what was done: forget, hold, resume, mode, key-rule, horizon, rename,
	// purge.
	Act string
	// Consumer it was done to; of a rename, its new name.
	Consumer string
	// Key of a claim in its stored form; empty where the act is not of one claim.
	Key string
	// Detail is what was changed, from what to what.
	Detail string
}

// Stats of the claims of one consumer, by the database's clock.
type Stats struct {
	// Claims there are, those marked split included.
	Claims int64
	// Splits among them.
	Splits int64
	// Oldest and Newest ProcessedAt; zero when there are no claims.
	Oldest, Newest time.Time
	// Now is when it was counted.
	Now time.Time
}

// refusal is why an act is not done: the operator must change something.
type refusal struct{ err error }

func (r refusal) Error() string { return r.err.Error() }
func (r refusal) Unwrap() error { return r.err }

func refuse(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// keep runs fn, one act or question of an operator. What it refuses, and a
// consumer that is not there, has class Config.
func (b *Inbox) keep(op string, fn func() error) error {
	err := fn()
	if err == nil {
		return nil
	}
	if r, ok := errors.AsType[refusal](err); ok {
		return ConfigError(op, r)
	}
	if errors.Is(err, ErrNotRegistered) {
		return Configf(op, "there is no such consumer in the registry: %w", ErrNotRegistered)
	}
	return &Error{Op: op, Class: b.Class(err), Err: err}
}

// stored checks a claim whose key is in its stored form already.
func storedClaim(c Claim) error {
	key := c.Key
	c.Key = "k"
	if _, err := c.stored(); err != nil {
		return refusal{err}
	}
	if key == "" || len(key) > MaxKeyBytes || !utf8.ValidString(key) {
		return refuse("key %q is in no stored form: see StoredKey", key)
	}
	return nil
}

// LookupStored is Lookup for keys that are in their stored form already, as
// StoredKey gives them and as the table has them: StoredKey of such a key may be
// another one.
func (b *Inbox) LookupStored(ctx context.Context, cs ...Claim) (recs []Record, err error) {
	if len(cs) == 0 {
		return nil, nil
	}
	err = b.keep("look up", func() (err error) {
		for _, c := range cs {
			if err := storedClaim(c); err != nil {
				return err
			}
		}
		recs, err = b.store.Lookup(ctx, cs)
		return err
	})
	return recs, err
}

// Consumers returns the registry, ordered by name.
func (b *Inbox) Consumers(ctx context.Context) (cs []Consumer, err error) {
	err = b.keep("read the registry", func() (err error) {
		cs, err = b.store.Consumers(ctx)
		return err
	})
	return cs, err
}

// Consumer returns the registry row of a name; ok is false when there is none.
// Former names are not looked for.
func (b *Inbox) Consumer(ctx context.Context, name string) (c Consumer, ok bool, err error) {
	err = b.keep(fmt.Sprintf("read consumer %q", name), func() (err error) {
		c, ok, err = b.store.Consumer(ctx, name)
		return err
	})
	return c, ok, err
}

// Claims returns the committed claims of one key, in its stored form, by all
// consumers of the registry, in the order of their names.
func (b *Inbox) Claims(ctx context.Context, storedKey string) (found []Record, err error) {
	err = b.keep(fmt.Sprintf("read the claims of key %q", storedKey), func() error {
		consumers, err := b.store.Consumers(ctx)
		if err != nil || len(consumers) == 0 {
			return err
		}
		cs := make([]Claim, len(consumers))
		for i, c := range consumers {
			cs[i] = Claim{Consumer: c.Name, Key: storedKey}
			if err := storedClaim(cs[i]); err != nil {
				return err
			}
		}
		recs, err := b.store.Lookup(ctx, cs)
		for _, r := range recs {
			if r.Found {
				found = append(found, r)
			}
		}
		return err
	})
	return found, err
}

// Stats counts the claims of a consumer. It reads all of them: seconds where
// there are millions.
func (b *Inbox) Stats(ctx context.Context, consumer string) (s Stats, err error) {
	err = b.keep(fmt.Sprintf("count the claims of %q", consumer), func() (err error) {
		s, err = b.store.Stats(ctx, consumer)
		return err
	})
	return s, err
}

// Clock reads the clock of the database: all times of claims and consumers are by
// it.
func (b *Inbox) Clock(ctx context.Context) (now time.Time, err error) {
	err = b.keep("read the clock", func() (err error) {
		now, err = b.store.Clock(ctx)
		return err
	})
	return now, err
}

// defaultActs are as many as fit on a page.
const defaultActs = 100

// Acts returns what was changed on purpose, newest first: at most limit acts.
// A limit of 0 or less is 100.
func (b *Inbox) Acts(ctx context.Context, limit int) (acts []Act, err error) {
	if limit <= 0 {
		limit = defaultActs
	}
	err = b.keep("read the audit", func() (err error) {
		acts, err = b.store.Acts(ctx, limit)
		return err
	})
	return acts, err
}

// Forget deletes one claim, its key in the stored form, so that the next copy of
// the message runs as if it were the first. It is the operator's way out of a
// split claim, once it is known what the handler wrote, and of a claim that must
// be run again on purpose. The act is in the audit. false when there is no such
// claim.
func (b *Inbox) Forget(ctx context.Context, c Claim, n Note) (ok bool, err error) {
	err = b.keep(fmt.Sprintf("forget claim %s", c), func() (err error) {
		if err := storedClaim(c); err != nil {
			return err
		}
		if err := n.check(); err != nil {
			return err
		}
		a := n.act("forget", c.Consumer, "")
		a.Key = c.Key
		ok, err = b.store.Forget(ctx, c, a)
		return err
	})
	if ok {
		b.splits.remove(c) // the mark that was owed to it
	}
	return ok, err
}
