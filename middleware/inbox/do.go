package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// member is one Do on its way through the engine. A single run is a group of
// one: everything below begin takes members.
type member struct {
	claim   Claim
	mode    Mode
	fn      func(ctx context.Context) error
	rec     Record
	wouldBe Outcome // set only where Observe overrules it

	grouped
	detached func() // of a run that others wait for; else nil
}

func (m *member) claimed() bool { return m.claim.Key != "" }

// Do runs fn inside the claim c: begin, claim, fn, verify, commit. fn finds the
// transaction with Tx in its context and must make all business writes through
// it.
//
// The effect of one (consumer, key) is committed at most once, however often and
// wherever Do is called for it. fn may run more than once before a commit, never
// after one. Do does not retry: that is for the caller, who may call Do again
// after any error, an Unknown one included.
//
// The error is nil exactly for Processed, Duplicate and Unclaimed; otherwise it
// is an *Error whose class says what may be done. A panic of fn, or its Goexit,
// is rolled back and goes on up.
//
// ctx cancels the waiting for a connection and for the claim. After that it is
// handed to fn, but the transaction has a deadline of its own (Config.Deadline),
// so that a run that a shutdown overtakes can still commit.
func (b *Inbox) Do(ctx context.Context, c Claim, fn func(ctx context.Context) error) (Outcome, error) {
	c, err := c.stored()
	if err != nil {
		if ClassOf(err) != ClassPermanent {
			err = ConfigError("do", err)
		}
		return b.report(ctx, &member{claim: c}, time.Now(), Failed, err)
	}
	return b.do(ctx, &member{claim: c, fn: fn})
}

// DoUnclaimed runs fn in a guarded transaction without a claim, for messages
// that have no key where that was chosen. It takes effect once a delivery, not
// once a message. The outcome is Unclaimed or Failed.
func (b *Inbox) DoUnclaimed(ctx context.Context, consumer string, fn func(ctx context.Context) error) (Outcome, error) {
	return b.do(ctx, &member{claim: Claim{Consumer: consumer}, fn: fn})
}

func (b *Inbox) do(ctx context.Context, m *member) (out Outcome, err error) {
	start := time.Now()
	left := true // by panic or Goexit, unless a return clears it
	defer func() {
		if left {
			_, _ = b.report(ctx, m, start, Failed, errLeft)
		}
	}()
	out, err = b.prepare(ctx, m)
	left = false
	return b.report(ctx, m, start, out, err)
}

var errLeft = errors.New("handler panicked or left its goroutine")

// report tells the hooks and hands the outcome through.
func (b *Inbox) report(ctx context.Context, m *member, start time.Time, out Outcome, err error) (Outcome, error) {
	if b.config.Hooks.Done != nil {
		e := Event{Claim: m.claim, Outcome: out, WouldBe: out, Err: err, Attempt: Attempt(ctx), Duration: time.Since(start)}
		if out == Processed {
			e.Group = max(1, m.size)
		}
		if m.wouldBe != Failed && out == Processed {
			e.WouldBe = m.wouldBe
		}
		if m.rec.Found {
			e.Age = m.rec.Age
		}
		b.tell(ctx, e)
	}
	return out, err
}

// tell calls the hook. A hook that panics must not turn a committed message into
// a failed one.
func (b *Inbox) tell(ctx context.Context, e Event) {
	defer func() {
		if v := recover(); v != nil {
			b.config.Logger.ErrorContext(ctx, "hook panicked", "consumer", e.Claim.Consumer, "key", e.Claim.Key, "panic", fmt.Sprint(v))
		}
	}()
	b.config.Hooks.Done(ctx, e)
}

// prepare does what needs no connection: scope, mode, and the turn among copies
// in this process.
func (b *Inbox) prepare(ctx context.Context, m *member) (Outcome, error) {
	for s := scopeOf(ctx); s != nil; s = s.outer {
		if s.inbox == b {
			return Failed, &Error{Op: "claim", Claim: m.claim, Class: ClassConfig, Err: fmt.Errorf("the context already runs inside claim %s: a handler's work belongs to the claim it was called in", s.claim)}
		}
	}
	var err error
	if m.mode, err = b.mode(ctx, m.claim.Consumer); err != nil {
		return Failed, err
	}
	if !m.claimed() {
		return b.attempt(ctx, m)
	}
	leave, err := b.flights.enter(ctx, m.claim, b.config.LockWait)
	if err != nil {
		return b.notBegun(ctx, m, err)
	}
	defer leave()
	if err := b.remark(ctx, m.claim); err != nil {
		return Failed, err
	}
	if b.config.Group > 1 {
		return b.join(ctx, m)
	}
	return b.twice(ctx, m)
}

// twice is attempt, once more when a purge may have deleted the row between the
// insert and the look.
func (b *Inbox) twice(ctx context.Context, m *member) (Outcome, error) {
	out, err := b.attempt(ctx, m)
	if errors.Is(err, errContradiction) {
		out, err = b.attempt(ctx, m)
	}
	return out, err
}

var errContradiction = errors.New("the claim inserted nothing and yet there is no such row: look for a trigger, a rule or row security on the table")

// attempt is one transaction.
func (b *Inbox) attempt(ctx context.Context, m *member) (out Outcome, err error) {
	tctx, cancel := context.WithTimeout(context.Background(), b.config.Deadline)
	defer cancel()
	sess, err := b.begin(ctx, tctx, cancel, m)
	if err != nil {
		return b.notBegun(ctx, m, err)
	}

	Claimed(ctx)
	open := true
	defer func() {
		if !open {
			return
		}
		// A panic or Goexit is on its way up; it wins over what is found here.
		if _, rerr := b.rollback(ctx, sess, m); rerr != nil {
			b.config.Logger.ErrorContext(ctx, "handler panicked or left its goroutine", "consumer", m.claim.Consumer, "key", m.claim.Key, "err", rerr)
		}
	}()

	if m.claimed() && !m.rec.New {
		out, err = b.taken(m)
		if m.mode == Enforce || out == Failed {
			open = false
			if _, ended := b.rollback(ctx, sess, m); ended != nil {
				err = ended
			}
			return out, err
		}
		m.wouldBe = out
	}
	already, err := b.call(ctx, tctx, sess, m, &scope{inbox: b, claim: m.claim, outer: scopeOf(ctx), detached: m.detached})
	if err != nil {
		open = false
		alive, ended := b.rollback(ctx, sess, m)
		if ended != nil {
			return Failed, ended
		}
		if errors.Is(err, Skip) {
			return Unclaimed, nil
		}
		return Failed, b.handlerError(ctx, tctx, m, alive, err)
	}
	open = false
	if err := sess.Commit(tctx); err != nil {
		return Failed, b.commitError(ctx, tctx, m, err)
	}
	switch {
	case already:
		return Duplicate, nil
	case !m.claimed():
		return Unclaimed, nil
	}
	return Processed, nil
}

// begin opens the transaction and claims. ctx cancels it only until it is open:
// a connection's context bounds the whole transaction in database/sql, and a
// shutdown must not undo a run that could commit.
func (b *Inbox) begin(ctx, tctx context.Context, cancel context.CancelFunc, m *member) (Session, error) {
	var claims []Claim
	if m.claimed() {
		claims = []Claim{m.claim}
	}
	stop := context.AfterFunc(ctx, cancel)
	sess, recs, err := b.store.Begin(run{Context: tctx, values: ctx}, claims, BeginOptions{LockWait: b.config.LockWait})
	detached := stop()
	if err != nil {
		return nil, err
	}
	if m.claimed() {
		m.rec = recs[0]
	}
	if !detached {
		_, _ = b.rollback(ctx, sess, m) // nothing ran that could have ended it
		return nil, context.Cause(ctx)
	}
	return sess, nil
}

// taken judges a claim that was not won.
func (b *Inbox) taken(m *member) (Outcome, error) {
	if !m.rec.Found {
		return Failed, &Error{Op: "claim", Claim: m.claim, Class: ClassConfig, Err: errContradiction}
	}
	out := m.rec.judge(m.claim)
	if out == Duplicate {
		return out, nil
	}
	cause := ErrConflict
	if m.rec.Split() {
		cause = ErrSplit
	}
	return out, &Error{Op: "claim", Claim: m.claim, Class: ClassPermanent, Err: cause}
}

// call runs the handler, unless Already says that its work was done before.
func (b *Inbox) call(ctx, tctx context.Context, sess Session, m *member, s *scope) (already bool, err error) {
	var hctx context.Context = run{Context: tctx, values: ctx, scope: s}
	if !detached(ctx) {
		deadline, _ := tctx.Deadline()
		bounded, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		hctx = context.WithValue(bounded, scopeKey{}, s)
	}
	hctx, kill := sess.Context(hctx)
	s.given.kill = kill
	defer kill()
	defer s.given.close() // before the context ends, which a call that is left behind may wait for
	if m.rec.New && b.config.Already != nil {
		already, err = b.config.Already(hctx, m.claim)
		if err != nil {
			return false, fmt.Errorf("already: %w", err)
		}
		if already && m.mode == Enforce {
			return true, nil
		}
		if already {
			m.wouldBe = Duplicate
		}
	}
	return false, m.fn(hctx)
}

// rollback ends the transaction of a run that must not commit. ended is set only
// when the handler had ended it: then the claim may be committed, and is marked
// split. alive tells whether the connection could still be asked.
func (b *Inbox) rollback(ctx context.Context, sess Session, m *member) (alive bool, ended error) {
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	err := sess.Rollback(rctx)
	switch {
	case errors.Is(err, ErrEnded):
		return true, b.markSplit(ctx, m.claim, err)
	case errors.Is(err, ErrDoubt) && m.claimed():
		b.splits.add(m.claim)
	}
	return err == nil, nil
}

// notBegun classes the failure of a run whose handler was not called. None of
// it is an attempt: a database that refuses the claim is not the handler's
// fault, so what is not known better holds the delivery.
func (b *Inbox) notBegun(ctx context.Context, m *member, err error) (Outcome, error) {
	e := &Error{Op: "claim", Claim: m.claim, Class: b.Class(err), Err: err}
	switch {
	case ctx.Err() != nil:
		e.Class = ClassCancelled
	case errors.Is(err, ErrBusy):
		e.Class = ClassTransient
		return Later, e
	case e.Class == ClassPlain, e.Class == ClassCancelled, e.Class == ClassUnknown:
		e.Class = ClassDown
	}
	return Failed, e
}

// handlerError classes what the handler returned. An instruction of the handler
// wins; then a cancelled caller; then what the database said.
func (b *Inbox) handlerError(ctx, tctx context.Context, m *member, alive bool, err error) error {
	e := &Error{Op: "handle", Claim: m.claim, Class: b.Class(err), Claimed: true, Err: err}
	if m.rec.New {
		e.ClaimedAt = m.rec.ProcessedAt
	}
	_, wants := retryDelay(err)
	switch {
	case e.Class == ClassPermanent && isPermanent(err):
	case errors.Is(ctx.Err(), context.Canceled):
		e.Class = ClassCancelled
	case wants:
		e.Class = ClassPlain
	case tctx.Err() != nil:
		e.Class = ClassPlain
		e.Err = fmt.Errorf("handler took longer than the deadline of %s: %w", b.config.Deadline, err)
	case e.Class == ClassCancelled, e.Class == ClassUnknown:
		// A deadline that the handler set itself.
		e.Class = ClassPlain
	case e.Class == ClassDown && alive && network(err):
		// The claim's connection is well: it was another one that the handler uses,
		// of a service or a database elsewhere.
		e.Class = ClassPlain
	}
	return e
}

// commitError classes a commit that did not succeed.
func (b *Inbox) commitError(ctx, tctx context.Context, m *member, err error) error {
	if errors.Is(err, ErrEnded) {
		return b.markSplit(ctx, m.claim, err)
	}
	if errors.Is(err, ErrDoubt) && m.claimed() {
		b.splits.add(m.claim)
	}
	e := &Error{Op: "commit", Claim: m.claim, Class: b.Class(err), Claimed: true, Err: err}
	_, swallowed := errors.AsType[*SwallowedError](err)
	switch {
	case errors.Is(err, ErrUnknownCommit):
		e.Class = ClassUnknown
	case tctx.Err() != nil:
		e.Class = ClassPlain
		e.Err = fmt.Errorf("handler took longer than the deadline of %s: %w", b.config.Deadline, err)
	case swallowed && e.Class != ClassTransient && e.Class != ClassDown:
		e.Class = ClassPlain
	case e.Class == ClassCancelled:
		e.Class = ClassPlain
	}
	return e
}
