package inbox

import (
	"context"
	"errors"
	"slices"
)

// sets calls the sets that members gave items to, each once; false when the
// transaction is over.
func (p *pass) sets() bool {
	p.had = 0 // of those that wait for a set's call, nobody had the time to itself
	for len(p.gathered) > 0 {
		set := p.gathered[0].set
		var these, others []*gathered
		for _, g := range p.gathered {
			if g.set == set {
				these = append(these, g)
			} else {
				others = append(others, g)
			}
		}
		p.gathered = others
		if !p.set(these) {
			return false
		}
	}
	return true
}

// set calls one set, and then lets its members go, one after the other.
func (p *pass) set(gs []*gathered) bool {
	a := p.callSet(gs)
	var check error
	if !a.failed() {
		check = p.sess.Check(p.tctx)
	}
	if a.failed() || check != nil {
		p.setFailed(gs, a, check)
		return false
	}
	for i, g := range gs {
		g.result <- nil
		a := <-g.member.answer
		if a.failed() {
			// What the set did for it cannot be told from the rest.
			p.undoAll(g.member, a, nil, p.letGo(gs[i+1:]))
			return false
		}
		g.member.ran = true
		p.held, p.done = append(p.held, g.member), append(p.done, a)
	}
	return true
}

// callSet runs the set's func on a goroutine of its own: whose fault a panic is
// shows when each member runs by itself.
func (p *pass) callSet(gs []*gathered) answer {
	s := &scope{inbox: p.inbox, claim: gs[0].member.claim, grouped: true}
	for _, g := range gs { // the claims that any of them was called in
		for o := scopeOf(g.member.ctx); o != nil; o = o.outer {
			s.outer = &scope{inbox: o.inbox, claim: o.claim, outer: s.outer}
		}
	}
	ctx, kill := p.sess.Context(context.WithValue(p.tctx, scopeKey{}, s))
	result := make(chan answer, 1)
	go func() {
		a := answer{err: errLeft}
		defer func() {
			_ = recover()
			kill()
			result <- a
		}()
		err := gs[0].run(ofSet(ctx, s), gs)
		a = answer{err: err, alone: s.wantsAlone.Load() || errors.Is(err, errAlone)}
	}()
	return <-result
}

// setFailed undoes all because of a set whose call failed. Its members run again,
// each with a call to itself.
func (p *pass) setFailed(gs []*gathered, a answer, check error) {
	err := a.err
	if err == nil {
		err = check
	}
	p.inbox.config.Logger.Debug("the call of a set failed: its messages run again, each by itself",
		"consumer", p.lane.key.consumer, "messages", len(gs), "err", err)
	ms, later := p.letGo(gs), p.letGo(p.gathered)
	for _, m := range ms {
		m.solitary = true
	}
	p.gathered = nil
	var swallowed *SwallowedError
	switch {
	case errors.Is(check, ErrEnded):
		_ = p.drop() // what it says is known
		p.ended(ms, later, check)
	case check != nil && !errors.As(check, &swallowed) && p.tctx.Err() == nil:
		p.lost(check, ms, a, later)
	default:
		if p.inbox.Class(err) == ClassTransient {
			p.lane.takeTurns()
		}
		if !p.undo(ms, a, later) {
			return
		}
		if a.alone {
			p.asked += len(ms)
			p.apart, ms = append(p.apart, ms...), nil
		}
		p.again(slices.Concat(p.held, p.unrun, later, ms))
		p.release()
	}
}

// letGo has Handle return an error and waits until the handlers did. It returns the
// members that have to run again; the others panicked or left.
func (p *pass) letGo(gs []*gathered) (ms []*member) {
	for _, g := range gs {
		g.result <- errAgain
		if a := <-g.member.answer; a.left {
			p.left, p.fled = append(p.left, g.member), append(p.fled, g.member)
			continue
		}
		ms = append(ms, g.member)
	}
	return ms
}
