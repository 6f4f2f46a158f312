package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// endings are statements that no handle may send.
func (h *test) endings() []string {
	return append([]string{
		"COMMIT", "commit;", "  ROLLBACK", "END", "BEGIN", "COMMIT; BEGIN", "SELECT 1; COMMIT",
		"-- x\nCOMMIT", "/* x */ ROLLBACK", "COMMIT AND CHAIN",
		"SAVEPOINT sekali", "RELEASE SAVEPOINT sekali", "ROLLBACK TO SAVEPOINT sekali",
	}, h.s.c.Refused...)
}

// The handle refuses what would end the transaction, or touch the inbox's own
// savepoint, and a run that goes on after such a refusal is not committed:
// it would be on the assumption that something had been done or undone.
func refusals(h *test) {
	for _, statement := range h.endings() {
		h.wantErr(inbox.ClassPlain, nil, h.claim("k"), func(ctx context.Context) error {
			return errors.Join(h.write("k")(ctx), h.db.Exec(ctx, statement))
		})
		err := h.wantErr(inbox.ClassPlain, nil, h.claim("k"), func(ctx context.Context) error {
			if err := h.write("k")(ctx); err != nil {
				return err
			}
			if err := h.db.Exec(ctx, statement); err == nil {
				h.Errorf("%q was sent", statement)
			}
			return nil
		})
		if _, ok := errors.AsType[*inbox.SwallowedError](err); !ok {
			h.Errorf("%q swallowed: %v", statement, err)
		}
		h.absent(h.claim("k"))
	}
	h.effects("k", 0)
	h.want(inbox.Processed, h.claim("k"), h.write("k"))
	h.effects("k", 1)
}

// A handler may undo a part of its work with a savepoint of its own.
func savepointsWork(h *test) {
	h.want(inbox.Processed, h.claim("k"), func(ctx context.Context) error {
		return errors.Join(
			h.write("kept")(ctx),
			h.db.Exec(ctx, "SAVEPOINT mine"),
			h.write("undone")(ctx),
			h.db.Exec(ctx, "ROLLBACK TO SAVEPOINT mine"),
			h.write("kept")(ctx),
			h.db.Exec(ctx, "RELEASE SAVEPOINT mine"),
		)
	})
	h.effects("kept", 2)
	h.effects("undone", 0)
	h.want(inbox.Duplicate, h.claim("k"), h.never)
}

// A handler that swallows the error of a statement is not committed where the
// database has given the transaction up, and the first cause is what it is told.
// Elsewhere the statement alone is undone, and the handler decides.
func swallowedError(h *test) {
	handler := func(ctx context.Context) error {
		if err := h.write("k")(ctx); err != nil {
			return err
		}
		if err := h.db.Exec(ctx, h.fail("k")); err == nil {
			h.Error("the statement did not fail")
		}
		return nil
	}
	if !h.s.c.FailedStatementDooms {
		h.want(inbox.Processed, h.claim("k"), handler)
		h.effects("k", 1)
		return
	}
	err := h.wantErr(inbox.ClassPlain, nil, h.claim("k"), handler)
	if _, ok := errors.AsType[*inbox.SwallowedError](err); !ok {
		h.Errorf("error %v", err)
	}
	h.absent(h.claim("k"))
	h.effects("k", 0)

	// The second statement's error still has the first one's class: the check
	// constraint makes it permanent.
	h.wantErr(inbox.ClassPermanent, nil, h.claim("k"), func(ctx context.Context) error {
		_ = h.db.Exec(ctx, h.fail("k"))
		return h.write("k")(ctx)
	})
	h.want(inbox.Processed, h.claim("k"), h.write("k"))
	h.effects("k", 1)
}

// A handler that knows that what the database refuses now will be taken later (a
// stock below zero, before it is refilled) is believed.
func retryAfterARefusal(h *test) {
	h.wantErr(inbox.ClassPlain, nil, h.claim("k"), func(ctx context.Context) error {
		return inbox.RetryAfter(h.db.Exec(ctx, h.fail("k")), time.Minute)
	})
	h.absent(h.claim("k"))
}

// An error that a ROLLBACK TO undid does not count.
func swallowedErrorUndone(h *test) {
	h.want(inbox.Processed, h.claim("k"), func(ctx context.Context) error {
		if err := h.db.Exec(ctx, "SAVEPOINT mine"); err != nil {
			return err
		}
		if err := h.db.Exec(ctx, h.fail("k")); err == nil {
			h.Error("the statement did not fail")
		}
		if err := h.db.Exec(ctx, "ROLLBACK TO SAVEPOINT mine"); err != nil {
			return err
		}
		return h.write("k")(ctx)
	})
	h.effects("k", 1)
}

// A ROLLBACK TO undoes what came after its savepoint: an error from before it
// still counts, and so does a statement that was refused. A write that never
// happened is no success.
func swallowedErrorBeforeSavepoint(h *test) {
	gone, cancel := context.WithCancel(h.ctx)
	cancel()
	for name, c := range map[string]struct {
		want  inbox.Outcome
		steps []string // "": a statement that is not even sent
	}{
		"after":         {inbox.Processed, []string{"SAVEPOINT mine", "", "ROLLBACK TO SAVEPOINT mine"}},
		"before":        {inbox.Failed, []string{"", "SAVEPOINT mine", "ROLLBACK TO SAVEPOINT mine"}},
		"between":       {inbox.Failed, []string{"SAVEPOINT mine", "", "SAVEPOINT part", "ROLLBACK TO SAVEPOINT part"}},
		"outer":         {inbox.Processed, []string{"SAVEPOINT mine", "", "SAVEPOINT part", "ROLLBACK TO SAVEPOINT part", "ROLLBACK TO SAVEPOINT Mine"}},
		"same name":     {inbox.Failed, []string{"SAVEPOINT mine", "", "SAVEPOINT mine", "ROLLBACK TO SAVEPOINT mine"}},
		"released":      {inbox.Processed, []string{"SAVEPOINT mine", "", "SAVEPOINT part", "RELEASE SAVEPOINT part", "ROLLBACK TO SAVEPOINT mine"}},
		"refused":       {inbox.Failed, []string{"SAVEPOINT mine", "COMMIT", "ROLLBACK TO SAVEPOINT mine"}},
		"refused first": {inbox.Failed, []string{"COMMIT", "SAVEPOINT mine", "ROLLBACK TO SAVEPOINT mine"}},
	} {
		out, err := h.do(h.box, h.claim(name), func(ctx context.Context) error {
			if err := h.write(name)(ctx); err != nil {
				return err
			}
			for _, s := range c.steps {
				switch s {
				case "":
					if err := h.db.Exec(sameValues{gone, ctx}, h.insert("lost")); !errors.Is(err, context.Canceled) {
						h.Errorf("%s: a statement of a context that has ended: %v", name, err)
					}
				case "COMMIT":
					_ = h.db.Exec(ctx, s)
				default:
					if err := h.db.Exec(ctx, s); err != nil {
						return err
					}
				}
			}
			return nil
		})
		swallowed := new(inbox.SwallowedError)
		if out != c.want || out == inbox.Failed && !errors.As(err, &swallowed) {
			h.Errorf("%s: %s, %v; want %s", name, out, err, c.want)
		}
		want := 0
		if c.want == inbox.Processed {
			want = 1
		}
		h.effects(name, want)
	}
	h.effects("lost", 0)
}

// sameValues is a context with the values of another one.
type sameValues struct {
	context.Context //nolint:containedctx // it is one

	values context.Context
}

func (c sameValues) Value(key any) any { return c.values.Value(key) }

// What a handler sends after the database undid the whole transaction is undone
// too: nothing of the run is left, through whatever it was sent, and the next run
// does all of it.
func databaseUndoes(h *test) {
	type send = func(ctx context.Context, statement string) error
	ways := map[string]send{"handle": h.db.Exec}
	if h.db.Raw != nil {
		ways["raw"] = h.db.Raw
	}
	if h.db.Prepared != nil {
		ways["prepared"] = h.db.Prepared
	}
	for way, exec := range ways {
		for i, statement := range h.s.c.Undoes {
			for _, ret := range []error{nil, errors.New("a later step failed")} {
				name := fmt.Sprintf("%s-%d-%v", way, i, ret == nil)
				out, err := h.do(h.box, h.claim(name), func(ctx context.Context) error {
					if err := h.write(name)(ctx); err != nil {
						return err
					}
					if err := exec(ctx, statement); err == nil {
						h.Errorf("%s: %s did not fail", way, statement)
					}
					// Both may fail, and their errors are dropped.
					_ = exec(ctx, h.insert(name))
					_ = h.db.Exec(ctx, h.insert(name))
					return ret
				})
				if out != inbox.Failed || err == nil {
					h.Errorf("%s: %s: %s, %v", name, statement, out, err)
				}
				h.absent(h.claim(name))
				h.effects(name, 0)
				h.want(inbox.Processed, h.claim(name), h.write(name))
				h.effects(name, 1)
			}
		}
	}
}

// A statement ends at the deadline of its transaction, whatever context it was
// given.
func deadlineOfEveryStatement(h *test) {
	box := h.open(inbox.Config{LockWait: time.Second, Deadline: 2 * time.Second}, 0)
	start := time.Now()
	out, err := h.do(box, h.claim("k"), func(ctx context.Context) error {
		return h.db.Exec(context.WithoutCancel(ctx), h.s.c.Endless)
	})
	h.checkErr(out, err, inbox.ClassPlain, nil)
	if d := time.Since(start); d > patience/2 {
		h.Errorf("it took %s", d)
	}
	h.absent(h.claim("k"))
}

// The handle is dead once the handler returned.
func lateUse(h *test) {
	var late context.Context
	h.want(inbox.Processed, h.claim("k"), func(ctx context.Context) error {
		late = context.WithoutCancel(ctx) //nolint:fatcontext // kept on purpose
		return h.write("k")(ctx)
	})
	if err := h.db.Exec(late, h.insert("k")); !errors.Is(err, h.db.ErrLate) {
		h.Errorf("late use after a commit: %v", err)
	}
	cause := errors.New("no")
	h.wantErr(inbox.ClassPlain, cause, h.claim("failed"), func(ctx context.Context) error {
		late = context.WithoutCancel(ctx) //nolint:fatcontext // kept on purpose
		return cause
	})
	if err := h.db.Exec(late, h.insert("k")); !errors.Is(err, h.db.ErrLate) {
		h.Errorf("late use after a rollback: %v", err)
	}
	h.effects("k", 1)
}

// A goroutine that the handler left behind never writes into the transaction of
// another message. What it wrote before the handler returned belongs to that
// message; from then on it gets an error.
func lateGoroutine(h *test) {
	box := h.open(inbox.Config{}, 1) // the next message has the same connection
	var wg sync.WaitGroup
	started := make(chan struct{})
	late := make(chan error, 1)
	h.wantOn(box, inbox.Processed, h.claim("leaves"), func(ctx context.Context) error {
		wg.Go(func() {
			close(started)
			for {
				if err := h.write("late")(context.WithoutCancel(ctx)); err != nil {
					late <- err
					return
				}
			}
		})
		<-started
		return nil
	})
	for range times {
		h.wantErrOn(box, h.claim("undone"), func(context.Context) error { return errors.New("no") })
	}
	wg.Wait()
	if err := <-late; !errors.Is(err, h.db.ErrLate) {
		h.Errorf("late use: %v", err)
	}
}

func (h *test) wantErrOn(box *inbox.Inbox, c inbox.Claim, fn func(ctx context.Context) error) {
	h.Helper()
	if out, err := h.do(box, c, fn); out != inbox.Failed || err == nil {
		h.Fatalf("do %s: %s, %v", c, out, err)
	}
}

// Outside of a claim there is no transaction and no silent fallback to the pool.
func outsideOfAClaim(h *test) {
	if err := h.db.Exec(h.ctx, h.insert("k")); inbox.ClassOf(err) != inbox.ClassConfig {
		h.Errorf("error %v", err)
	}
	h.effects("k", 0)
}

// A claim inside of a claim is a mistake of the set-up, at once and without a
// wait for itself.
func claimInsideItsClaim(h *test) {
	for _, key := range []string{"k", "other"} {
		h.want(inbox.Processed, h.claim("k-"+key), func(ctx context.Context) error {
			out, err := h.box.Do(ctx, h.claim("k-"+key), h.never)
			h.checkErr(out, err, inbox.ClassConfig, nil)
			return nil
		})
	}
}
