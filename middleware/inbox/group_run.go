package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// group is one set of members on its way through a transaction, or two.
type group struct {
	inbox *Inbox
	lane  *lane

	asked int // members that asked to run alone
}

// run decides the fate of all ms but those that it returns: their handlers did not
// start in time, and they go first in the next group.
//
// A group whose members all succeed is one transaction. When a handler fails after
// it sent a statement, everything is undone and the group runs once more, with
// savepoints before the members that have not shown yet that they succeed. A
// failing member's fate is never decided in a group, where it sees what others
// have not committed yet: it runs again alone.
func (g *group) run(ms []*member) (back []*member) {
	rest, back := g.pass(ms, false)
	if len(rest) > 0 {
		g.lane.shrink()
		var more []*member
		rest, more = g.pass(rest, true)
		back = append(more, back...)
		g.alone(rest...)
	} else {
		g.lane.grow()
	}
	if 2*g.asked > len(ms) {
		g.lane.apart()
	}
	return back
}

// alone has members run each in a transaction of its own; nobody waits for them.
func (*group) alone(ms ...*member) {
	for _, m := range ms {
		m.orders <- order{kind: orderAlone, detached: func() {}}
	}
}

// end tells a member its fate.
func (*group) end(m *member, out Outcome, err error) {
	m.result, m.err = out, err
	m.orders <- order{kind: orderEnd}
}

// pass is one transaction. rest are the members to run once more, none of which
// was committed; back those that were not started.
func (g *group) pass(ms []*member, second bool) (rest, back []*member) {
	b := g.inbox
	base := context.Background()
	if b.config.Tenant != nil {
		base = context.WithoutCancel(ms[0].ctx) // the Begin func asks it for the tenant
	}
	tctx, cancel := context.WithTimeout(base, b.config.Deadline)
	defer cancel()
	p := &pass{group: g, tctx: tctx, second: second}
	runners, ok := p.begin(ms)
	if !ok {
		return p.rest, nil
	}
	p.handlers(runners)
	p.commit()
	return p.rest, p.back
}

// pass is a transaction of a group and what became of its members.
type pass struct {
	*group

	tctx   context.Context //nolint:containedctx // of the transaction
	sess   Session
	second bool
	held   []*member // whose handlers returned nil
	done   []answer  // of held
	unrun  []*member // new claims whose handlers were not started
	apart  []*member // to run alone once the transaction is over
	left   []*member // panicked or left; they wait for the end of the transaction
	over   bool      // nothing more to be decided by commit

	rest, back []*member
}

// begin claims for all members, and returns those whose handlers run.
func (p *pass) begin(ms []*member) (runners []*member, ok bool) {
	b := p.inbox
	claims := make([]Claim, len(ms))
	for i, m := range ms {
		claims[i] = m.claim
	}
	sess, recs, err := b.store.Begin(p.tctx, claims, BeginOptions{
		LockWait: min(groupLockWait, b.config.LockWait), Wait: b.config.LockWait, Lock: p.lane.lock(),
	})
	if err != nil {
		p.notBegun(ms, err)
		return nil, false
	}
	p.sess = sess
	for i, m := range ms {
		m.rec = recs[i]
		switch {
		case m.rec.New:
		case !m.rec.Found:
			p.apart = append(p.apart, m) // a contradiction; alone it is looked at twice
			continue
		default:
			Claimed(m.ctx)
			out, err := b.taken(m)
			if m.mode == Enforce || out == Failed {
				p.end(m, out, err)
				continue
			}
			m.wouldBe = out
		}
		runners = append(runners, m)
	}
	return runners, true
}

// notBegun: what is everybody's fault is told to everybody; whose fault the rest
// is, each finds out alone.
func (p *pass) notBegun(ms []*member, err error) {
	b := p.inbox
	switch class := b.Class(err); {
	case errors.Is(err, ErrBusy):
		p.alone(ms...)
	case class == ClassTransient:
		p.lane.deadlocked()
		p.again(ms)
	case class == ClassPermanent, class == ClassPlain:
		p.alone(ms...)
	default:
		for _, m := range ms {
			out, err := b.notBegun(m.ctx, m, err)
			p.end(m, out, err)
		}
	}
}

// again has members run once more: in the second pass of the group, else alone.
func (p *pass) again(ms []*member) {
	if p.second {
		p.alone(ms...)
		return
	}
	p.rest = append(p.rest, ms...)
}

// handlers runs them one after the other, until one spoils the transaction.
func (p *pass) handlers(ms []*member) {
	start := time.Now()
	for i, m := range ms {
		if m.ctx.Err() != nil || i > 0 && time.Since(start) > groupBudget {
			p.unrun = append(p.unrun, m)
			continue
		}
		point := p.second && !m.ran
		if point {
			if err := p.sess.Savepoint(p.tctx); err != nil {
				p.lost(err, nil, answer{}, ms[i:])
				return
			}
		}
		m.orders <- order{kind: orderRun, tctx: p.tctx, sess: p.sess}
		a := <-m.answer
		fine := !a.left && a.err == nil && !a.alone
		var check error
		if fine {
			check = p.sess.Check(p.tctx)
		}
		var swallowed *SwallowedError
		switch {
		case fine && check == nil:
			m.ran = true
			p.held, p.done = append(p.held, m), append(p.done, a)
			continue
		case errors.Is(check, ErrEnded):
			p.ended(m, ms[i+1:], check)
			return
		case check != nil && !errors.As(check, &swallowed) && p.tctx.Err() == nil:
			p.lost(check, m, a, ms[i+1:])
			return
		}
		if !p.failed(m, a, check, point, ms[i+1:]) {
			return
		}
	}
}

// failed deals with a member that must not be committed; true when the others may
// go on.
func (p *pass) failed(m *member, a answer, check error, point bool, later []*member) bool {
	if a.alone {
		p.asked++
	}
	clean := p.sess.Clean()
	switch {
	case clean && check == nil: // it left no trace
	case point:
		// Whether it ended the transaction is asked first: it must not hide behind the
		// savepoint.
		if err := p.sess.RollbackTo(p.tctx); err != nil {
			if errors.Is(err, ErrEnded) {
				p.ended(m, later, err)
				return false
			}
			p.lost(err, m, a, later)
			return false
		}
	default:
		p.undoAll(m, a, check, later)
		return false
	}
	if m.rec.New {
		if err := p.sess.Undo(p.tctx, m.claim); err != nil {
			p.lost(err, m, a, later)
			return false
		}
	}
	switch {
	case a.left:
		p.left = append(p.left, m)
	case clean && check == nil && !a.alone && errors.Is(a.err, Skip):
		p.end(m, Unclaimed, nil)
	case clean && check == nil && !a.alone:
		// It saw nothing of the database: alone it would fail just so.
		p.end(m, Failed, p.inbox.handlerError(m.ctx, p.tctx, m, true, a.err))
	default:
		p.apart = append(p.apart, m)
	}
	return true
}

// settleLeft keeps a member that failed: waiting for the end, or to run alone.
func (p *pass) settleLeft(m *member, a answer) {
	if a.left {
		p.left = append(p.left, m)
		return
	}
	p.apart = append(p.apart, m)
}

// undoAll rolls back because of m.
func (p *pass) undoAll(m *member, a answer, check error, later []*member) {
	err := a.err
	if err == nil {
		err = check
	}
	if err != nil && p.inbox.Class(err) == ClassTransient {
		p.lane.deadlocked()
	}
	p.over = true
	switch ended := p.rollback(); {
	case errors.Is(ended, ErrDoubt):
		p.doubt(append([]*member{m}, later...), a.left, ended)
		return
	case ended != nil:
		p.ended(m, later, ended)
		return
	}
	if p.tctx.Err() != nil && !a.left {
		// The deadline is the same when it runs alone.
		p.end(m, Failed, p.inbox.handlerError(m.ctx, p.tctx, m, true, err))
	} else {
		p.settleLeft(m, a)
	}
	p.again(append(append(p.held, p.unrun...), later...))
	p.release()
}

// rollback ends the transaction; the error tells that a handler had ended it, or
// that this is in doubt.
func (p *pass) rollback() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.tctx), rollbackTimeout)
	defer cancel()
	if err := p.sess.Rollback(ctx); errors.Is(err, ErrEnded) || errors.Is(err, ErrDoubt) {
		return err
	}
	return nil
}

// doubt: it could not be found out whether a handler had ended the transaction
// itself. ms are the one that may have, and those that did not run: if their claims
// turn out to be in the table, nobody may take them for processed. Who had returned
// before is complete if it was committed: the claim decides.
func (p *pass) doubt(ms []*member, left bool, err error) {
	b := p.inbox
	ms = append(ms, p.unrun...)
	for i, m := range ms {
		if m.rec.New {
			b.splits.add(m.claim) // the mark is written before its next copy is judged
		}
		if i == 0 && left {
			p.left = append(p.left, m)
			continue
		}
		p.end(m, Failed, &Error{Op: "claim", Claim: m.claim, Class: ClassDown, Err: err})
	}
	for _, m := range p.held {
		p.end(m, Failed, unknown(m, err))
	}
	p.release()
}

// unknown is what a member is told whose transaction may have been committed.
func unknown(m *member, err error) error {
	return &Error{Op: "commit", Claim: m.claim, Class: ClassUnknown, Claimed: true, Err: fmt.Errorf("another handler of the group: %w: the claim decides: %w", err, ErrUnknownCommit)}
}

// lost: the transaction cannot be used any more, through nobody's fault that is
// known. by is the member that ran last, if its fate is open, and later those that
// did not run.
func (p *pass) lost(err error, by *member, a answer, later []*member) {
	p.over = true
	switch ended := p.rollback(); {
	case errors.Is(ended, ErrDoubt):
		if by != nil {
			later = append([]*member{by}, later...)
		}
		p.doubt(later, a.left, ended)
		return
	case ended != nil:
		p.ended(by, later, ended)
		return
	}
	ms := append(append(p.held, p.unrun...), later...)
	switch {
	case by == nil:
	case a.left, a.err != nil, a.alone:
		p.settleLeft(by, a)
	default:
		ms = append(ms, by)
	}
	switch class := p.inbox.Class(err); {
	case p.tctx.Err() != nil: // one of them took all the time; it runs alone already
		p.again(ms)
	case class == ClassDown, class == ClassUnknown, class == ClassCancelled:
		for _, m := range ms {
			p.end(m, Failed, p.inbox.commitError(m.ctx, p.tctx, m, err))
		}
	case class == ClassTransient:
		p.lane.deadlocked()
		p.again(ms)
	default:
		p.alone(ms...)
	}
	p.release()
}

// release lets go who waited for the end of the transaction.
func (p *pass) release() {
	for _, m := range p.left {
		m.orders <- order{kind: orderEnd}
	}
	p.alone(p.apart...)
}

// commit ends the transaction, unless it is over.
func (p *pass) commit() {
	if p.over {
		return
	}
	b := p.inbox
	if len(p.held) == 0 {
		switch ended := p.rollback(); {
		case errors.Is(ended, ErrDoubt):
			p.doubt(nil, false, ended)
			return
		case ended != nil:
			p.ended(nil, nil, ended)
			return
		}
		p.putBack()
		p.release()
		return
	}
	var claims []Claim
	for _, m := range p.unrun {
		if m.rec.New {
			claims = append(claims, m.claim)
		}
	}
	if len(claims) > 0 {
		if err := p.sess.Undo(p.tctx, claims...); err != nil {
			p.lost(err, nil, answer{}, nil)
			return
		}
	}
	switch err := p.sess.Commit(p.tctx); {
	case err == nil:
		for i, m := range p.held {
			m.size = len(p.held)
			out := Processed
			if p.done[i].already {
				out = Duplicate
			}
			p.end(m, out, nil)
		}
	case errors.Is(err, ErrEnded):
		p.ended(nil, nil, err)
		return
	case errors.Is(err, ErrDoubt):
		ms := p.held // nobody knows which of them
		p.held = nil
		p.doubt(ms, false, err)
		return
	case errors.Is(err, ErrUnknownCommit), b.Class(err) == ClassDown:
		// Nobody runs again before the claim of a new transaction has decided.
		for _, m := range p.held {
			p.end(m, Failed, b.commitError(m.ctx, p.tctx, m, err))
		}
	default:
		// One of them broke it (a deferred constraint), or the database undid it.
		if b.Class(err) == ClassTransient {
			p.lane.deadlocked()
		}
		p.alone(p.held...)
	}
	p.putBack()
	p.release()
}

// putBack returns members whose handlers were not started to the queue.
func (p *pass) putBack() {
	for _, m := range p.unrun {
		if m.ctx.Err() != nil {
			out, err := p.inbox.notBegun(m.ctx, m, context.Cause(m.ctx))
			p.end(m, out, err)
			continue
		}
		p.back = append(p.back, m)
	}
}

// ended: a handler ended the transaction, by; nil when it is not known who. What
// was committed then is complete for those who had returned before, half done for
// the offender, and nothing for those who had not run: their claims are taken
// back.
func (p *pass) ended(by *member, later []*member, cause error) {
	b := p.inbox
	p.over = true
	_ = p.rollback() // the connection is given back; what it says is known
	p.lane.disband()
	b.config.Logger.Error("a handler ended the transaction of its group: group commit is off for this consumer until the next start",
		"consumer", p.lane.key.consumer, "err", cause)
	split, fine := p.held, []*member(nil)
	if by != nil {
		split, fine = []*member{by}, p.held
	}
	waiting := append(append([]*member{}, p.unrun...), later...)
	known := b.sortOut(split, waiting)
	for _, m := range split {
		err := error(&Error{Op: "claim", Claim: m.claim, Class: ClassPermanent, Err: errors.Join(ErrSplit, cause)})
		p.end(m, Failed, err)
	}
	for _, m := range fine {
		p.end(m, Failed, unknown(m, cause))
	}
	for _, m := range waiting {
		if known {
			p.alone(m)
			continue
		}
		p.end(m, Failed, &Error{Op: "claim", Claim: m.claim, Class: ClassDown, Err: errors.New("its claim could not be taken back after another handler ended the transaction")})
	}
	p.release()
}

// sortOut marks and takes back the claims of a group whose transaction was ended.
func (b *Inbox) sortOut(split, drop []*member) bool {
	var marked []Claim
	var dropped []Record
	for _, m := range split {
		if m.rec.New {
			b.splits.add(m.claim)
			marked = append(marked, m.claim)
		}
	}
	for _, m := range drop {
		if m.rec.New {
			b.splits.add(m.claim)
			dropped = append(dropped, m.rec)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	if err := b.store.Split(ctx, marked, dropped); err != nil {
		b.config.Logger.ErrorContext(ctx, "claims of a group whose transaction a handler ended could not be marked: a restart before their next copies would take them for processed",
			"claims", len(marked)+len(dropped), "err", err)
		return false
	}
	for _, c := range marked {
		b.splits.remove(c)
	}
	for _, r := range dropped {
		b.splits.remove(r.Claim)
	}
	return true
}
