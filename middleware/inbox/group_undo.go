package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// undoAll rolls back because of m, which failed.
func (p *pass) undoAll(m *member, a answer, check error, later []*member) {
	err := a.err
	if err == nil {
		err = check
	}
	if err != nil && p.inbox.Class(err) == ClassTransient {
		p.lane.takeTurns()
	}
	later = slices.Concat(p.letGo(p.gathered), later)
	p.gathered = nil
	if !p.undo([]*member{m}, a, later) {
		return
	}
	if p.tctx.Err() != nil && !a.left && 4*p.had >= 3*p.inbox.config.Deadline {
		// It would have hardly more time alone.
		m.end(Failed, p.inbox.handlerError(m.ctx, p.tctx, m, true, err))
	} else {
		p.put(m, a)
	}
	p.again(slices.Concat(p.held, p.unrun, later))
	p.release()
}

// lost: the transaction cannot be used any more, through nobody's fault that is
// known. by are those that ran last, one or a set's, if their fate is open, and
// later those that did not run.
func (p *pass) lost(err error, by []*member, a answer, later []*member) {
	later = slices.Concat(p.letGo(p.gathered), later)
	p.gathered = nil
	if !p.undo(by, a, later) {
		return
	}
	ms := slices.Concat(p.held, p.unrun, later)
	if a.failed() {
		for _, m := range by {
			p.put(m, a)
		}
	} else {
		ms = append(ms, by...)
	}
	switch class := p.inbox.Class(err); {
	case p.tctx.Err() != nil: // one of them took all the time; it runs alone already
		p.again(ms)
	case class == ClassDown, class == ClassUnknown, class == ClassCancelled:
		for _, m := range ms {
			m.end(Failed, p.inbox.commitError(m.ctx, p.tctx, m, err))
		}
	case class == ClassTransient:
		p.lane.takeTurns()
		p.again(ms)
	default:
		alone(ms...)
	}
	p.release()
}

// undo rolls back, once. false when a handler turns out to have ended the
// transaction, or may have: then everybody is told already. by are those that ran
// last, one or a set's, and later those that did not run.
func (p *pass) undo(by []*member, a answer, later []*member) bool {
	switch err := p.drop(); {
	case errors.Is(err, ErrEnded):
		p.ended(by, later, err)
		return false
	case errors.Is(err, ErrDoubt):
		if a.left {
			for _, m := range by {
				p.left = append(p.left, m)
				p.owe(m)
			}
			by = nil
		}
		p.doubt(slices.Concat(by, later), err)
		return false
	}
	return true
}

// drop rolls back and gives the connection back: the session must not be used any
// more.
func (p *pass) drop() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.tctx), rollbackTimeout)
	defer cancel()
	return p.sess.Rollback(ctx)
}

// owe has the member's claim marked split before its next copy is judged, if it
// turns out to be in the table.
func (p *pass) owe(m *member) {
	if m.rec.New {
		p.inbox.splits.add(m.claim)
	}
}

// doubt: it could not be found out whether a handler had ended the transaction
// itself. ms are the one that may have, and those that did not run: if their claims
// turn out to be in the table, nobody may take them for processed. Who had returned
// before is complete if it was committed: the claim decides.
func (p *pass) doubt(ms []*member, err error) {
	for _, m := range p.fled {
		p.owe(m)
	}
	for _, m := range slices.Concat(ms, p.unrun) {
		p.owe(m)
		m.end(Failed, &Error{Op: "claim", Claim: m.claim, Class: ClassDown, Err: err})
	}
	for _, m := range p.held {
		m.end(Failed, unknown(m, err))
	}
	p.release()
}

// unknown is what a member is told whose transaction may have been committed.
func unknown(m *member, err error) error {
	return &Error{Op: "commit", Claim: m.claim, Class: ClassUnknown, Claimed: true, Err: fmt.Errorf("another handler of the group: %w: the claim decides: %w", err, ErrUnknownCommit)}
}

// ended: a handler ended the transaction, by, or a set's func, whose members by
// are; none when it is not known who. What was committed then is complete for those who had returned before, half done for
// the offender, and nothing for those who had not run: their claims are taken
// back. The session is gone.
func (p *pass) ended(by, later []*member, cause error) {
	b := p.inbox
	later = slices.Concat(p.letGo(p.gathered), later)
	p.gathered = nil
	p.lane.disband()
	b.config.Logger.Error("a handler ended the transaction of its group: group commit is off for this consumer until the next start",
		"consumer", p.lane.key.consumer, "err", cause)
	split, fine := p.held, []*member(nil)
	if len(by) > 0 {
		split, fine = by, p.held
	}
	waiting := slices.Concat(p.unrun, later)
	b.sortOut(split, false)
	dropped := b.sortOut(slices.Concat(waiting, p.fled), true)
	for _, m := range split {
		m.end(Failed, &Error{Op: "claim", Claim: m.claim, Class: ClassPermanent, Err: errors.Join(ErrSplit, cause)})
	}
	for _, m := range fine {
		m.end(Failed, unknown(m, cause))
	}
	if dropped {
		alone(waiting...)
	} else {
		for _, m := range waiting {
			m.end(Failed, &Error{Op: "claim", Claim: m.claim, Class: ClassDown, Err: errors.New("its claim could not be taken back after another handler ended the transaction")})
		}
	}
	p.release()
}

// sortOut marks the claims of members split, or takes them back, in the table; what
// could not be written is owed to their next copies.
func (b *Inbox) sortOut(ms []*member, drop bool) bool {
	var split []Claim
	var dropped []Record
	for _, m := range ms {
		switch {
		case !m.rec.New:
			continue
		case drop:
			dropped = append(dropped, m.rec)
		default:
			split = append(split, m.claim)
		}
		b.splits.add(m.claim)
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	if err := b.store.Split(ctx, split, dropped); err != nil {
		b.config.Logger.ErrorContext(ctx, "claims of a group whose transaction a handler ended could not be marked: a restart before their next copies would take them for processed",
			"claims", len(split)+len(dropped), "err", err)
		return false
	}
	for _, m := range ms {
		b.splits.remove(m.claim)
	}
	return true
}
