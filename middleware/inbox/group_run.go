package inbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// runGroup decides the fate of all ms but those that it returns: their handlers did
// not start in time, and they go first in the next group.
//
// A group whose members all succeed is one transaction. When a handler fails after
// it sent a statement, everything is undone and the group runs once more, with
// savepoints before the members that have not shown yet that they succeed. A
// failing member's fate is never decided in a group, where it sees what others
// have not committed yet: it runs again alone.
func (l *lane) runGroup(ms []*member) (back []*member) {
	first := l.pass(ms, false)
	back, asked := first.back, first.asked
	if len(first.rest) > 0 {
		l.shrink()
		second := l.pass(first.rest, true)
		back, asked = append(second.back, back...), asked+second.asked
	} else {
		l.grow()
	}
	if 2*asked > len(ms) {
		l.apart()
	}
	return back
}

// pass is one transaction of a group and what became of its members.
type pass struct {
	lane   *lane
	inbox  *Inbox
	tctx   context.Context //nolint:containedctx // of the transaction
	cancel context.CancelFunc
	sess   Session
	second bool

	held     []*member     // whose handlers returned nil
	done     []answer      // of held
	unrun    []*member     // whose handlers were not started
	gathered []*gathered   // items that wait for the call of their set
	apart    []*member     // to run alone once the transaction is over
	left     []*member     // panicked or left; they wait for the end of the transaction
	fled     []*member     // those of left whose claims are still held: their set failed
	had      time.Duration // that was left of the deadline when the last handler began

	asked int       // members that asked to run alone
	rest  []*member // to run once more; none of them was committed
	back  []*member // to be queued again
}

// pass runs one transaction.
func (l *lane) pass(ms []*member, second bool) *pass {
	b := l.inbox
	tctx, cancel := context.WithTimeout(context.Background(), b.config.Deadline)
	p := &pass{lane: l, inbox: b, tctx: tctx, cancel: cancel, second: second}
	runners, ok := p.begin(ms)
	switch {
	case !ok, !p.handlers(runners), !p.sets():
	case p.whole() && overlaps(b.store):
		l.beside(func() {
			defer cancel()
			p.commit()
		})
		return p
	default:
		p.commit()
	}
	cancel()
	return p
}

// whole: all that is left to do for the members is to commit what they did.
func (p *pass) whole() bool {
	return len(p.held) > 0 && len(p.unrun)+len(p.apart)+len(p.left) == 0
}

// begin claims for all members, and returns those whose handlers run.
func (p *pass) begin(ms []*member) (runners []*member, ok bool) {
	b := p.inbox
	claims := make([]Claim, len(ms))
	for i, m := range ms {
		claims[i] = m.claim
	}
	stay := p.whileAnyStays(ms)
	sess, recs, err := p.open(ms, claims)
	if err == nil {
		p.sess = sess
		if yielded(sess) {
			p.lane.takeTurns()
		}
		if !stay() {
			_ = p.drop() // nothing ran that could have ended it
			err = context.Canceled
		}
	}
	if err != nil {
		p.notBegun(ms, err)
		return nil, false
	}
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
				m.end(out, err)
				continue
			}
			m.wouldBe = out
		}
		runners = append(runners, m)
	}
	return runners, true
}

// open is Begin. A store's Begin func is the user's: when it panics it shall do so
// where the member's handler would.
func (p *pass) open(ms []*member, claims []Claim) (sess Session, recs []Record, err error) {
	ctx := p.tctx
	if p.inbox.config.Tenant != nil {
		ctx = run{Context: ctx, values: ms[0].ctx} // the Begin func asks it for the tenant
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("begin panicked: %v", v)
		}
	}()
	lock, mode := p.lane.lock()
	return p.inbox.store.Begin(ctx, claims, BeginOptions{
		LockWait: min(groupLockWait, p.inbox.config.LockWait), Wait: p.inbox.config.LockWait, Lock: lock, LockMode: mode,
	})
}

// whileAnyStays ends the transaction's context when those of all members have ended:
// none of them waits for it any more. stay takes that back, and tells whether it is
// not too late.
func (p *pass) whileAnyStays(ms []*member) (stay func() bool) {
	var left atomic.Int64
	stops := make([]func() bool, len(ms))
	for i, m := range ms {
		stops[i] = context.AfterFunc(m.ctx, func() {
			if left.Add(1) == int64(len(ms)) {
				p.cancel()
			}
		})
	}
	return func() (ok bool) {
		for _, stop := range stops {
			ok = stop() || ok
		}
		return ok
	}
}

// notBegun: what is everybody's fault is told to everybody; whose fault the rest
// is, each finds out alone.
func (p *pass) notBegun(ms []*member, err error) {
	b := p.inbox
	switch class := b.Class(err); {
	case errors.Is(err, ErrBusy), class == ClassPermanent, class == ClassPlain:
		alone(ms...)
	case class == ClassTransient:
		p.lane.takeTurns()
		p.again(ms)
	default:
		for _, m := range ms {
			m.end(b.notBegun(m.ctx, m, err))
		}
	}
}

// again has members run once more: in the second pass of the group, else alone.
func (p *pass) again(ms []*member) {
	if p.second {
		alone(ms...)
		return
	}
	p.rest = append(p.rest, ms...)
}

// handlers runs them one after the other; false when one spoiled the transaction.
func (p *pass) handlers(ms []*member) bool {
	start := time.Now()
	defer func() { p.lane.ran(len(ms), time.Since(start)) }()
	for i, m := range ms {
		if m.ctx.Err() != nil || i > 0 && time.Since(start) > groupBudget {
			p.unrun = append(p.unrun, m)
			continue
		}
		point := p.second && !m.ran
		if point {
			if err := p.sess.Savepoint(p.tctx); err != nil {
				p.lost(err, nil, answer{}, ms[i:])
				return false
			}
		}
		deadline, _ := p.tctx.Deadline()
		p.had = time.Until(deadline)
		m.orders <- order{kind: orderRun, tctx: p.tctx, sess: p.sess}
		a := <-m.answer
		if a.gathered != nil {
			p.gathered = append(p.gathered, a.gathered)
			continue
		}
		if a.alone {
			p.asked++
		}
		var check error
		if !a.failed() {
			check = p.sess.Check(p.tctx)
		}
		var swallowed *SwallowedError
		goOn := true
		switch {
		case !a.failed() && check == nil:
			m.ran = true
			p.held, p.done = append(p.held, m), append(p.done, a)
		case errors.Is(check, ErrEnded):
			_ = p.drop() // what it says is known
			p.ended([]*member{m}, ms[i+1:], check)
			goOn = false
		case check != nil && !errors.As(check, &swallowed) && p.tctx.Err() == nil:
			p.lost(check, []*member{m}, a, ms[i+1:])
			goOn = false
		default:
			goOn = p.failed(m, a, check, point, ms[i+1:])
		}
		if !goOn {
			return false
		}
	}
	return true
}

// failed deals with a member that must not be committed; true when the others may
// go on.
func (p *pass) failed(m *member, a answer, check error, point bool, later []*member) bool {
	clean := check == nil && p.sess.Clean() // it left no trace
	switch {
	case clean:
	case point:
		// Whether it ended the transaction is asked first: it must not hide behind the
		// savepoint.
		err := p.sess.RollbackTo(p.tctx)
		switch {
		case errors.Is(err, ErrEnded):
			_ = p.drop() // what it says is known
			p.ended([]*member{m}, later, err)
			return false
		case err != nil:
			p.lost(err, []*member{m}, a, later)
			return false
		}
	default:
		p.undoAll(m, a, check, later)
		return false
	}
	if m.rec.New {
		if err := p.sess.Undo(p.tctx, m.claim); err != nil {
			p.lost(err, []*member{m}, a, later)
			return false
		}
	}
	switch {
	case !clean, a.left, a.alone:
		p.put(m, a)
	case errors.Is(a.err, Skip):
		m.end(Unclaimed, nil)
	default:
		// It saw nothing of the database: alone it would fail just so.
		m.end(Failed, p.inbox.handlerError(m.ctx, p.tctx, m, true, a.err))
	}
	return true
}

// put keeps a member that failed until the transaction is over: it then goes on up,
// or runs alone.
func (p *pass) put(m *member, a answer) {
	if a.left {
		p.left = append(p.left, m)
		return
	}
	p.apart = append(p.apart, m)
}

// commit ends the transaction.
func (p *pass) commit() {
	if len(p.held) == 0 {
		if !p.undo(nil, answer{}, nil) {
			return
		}
	} else if !p.commitHeld() {
		return
	}
	for _, m := range p.unrun {
		if m.ctx.Err() != nil {
			m.end(p.inbox.notBegun(m.ctx, m, context.Cause(m.ctx)))
			continue
		}
		p.back = append(p.back, m)
	}
	p.release()
}

// commitHeld commits what the handlers did that returned nil, and their claims,
// and nothing else. false when all is told already.
func (p *pass) commitHeld() bool {
	b := p.inbox
	var claims []Claim
	for _, m := range p.unrun {
		if m.rec.New {
			claims = append(claims, m.claim)
		}
	}
	if len(claims) > 0 {
		if err := p.sess.Undo(p.tctx, claims...); err != nil {
			p.lost(err, nil, answer{}, nil)
			return false
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
			m.end(out, nil)
		}
	case errors.Is(err, ErrEnded):
		p.ended(nil, nil, err)
		return false
	case errors.Is(err, ErrDoubt):
		ms := p.held // nobody knows which of them
		p.held = nil
		p.doubt(ms, err)
		return false
	case errors.Is(err, ErrUnknownCommit), b.Class(err) == ClassDown:
		// Nobody runs again before the claim of a new transaction has decided.
		for _, m := range p.held {
			m.end(Failed, b.commitError(m.ctx, p.tctx, m, err))
		}
	default:
		// One of them broke it (a deferred constraint), or the database undid it.
		if b.Class(err) == ClassTransient {
			p.lane.takeTurns()
		}
		alone(p.held...)
	}
	return true
}

// release lets go who waited for the end of the transaction.
func (p *pass) release() {
	for _, m := range p.left {
		m.orders <- order{kind: orderEnd}
	}
	alone(p.apart...)
}
