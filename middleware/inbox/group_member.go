package inbox

import (
	"context"
	"errors"
)

// grouped is what a member needs on its way through a group. Its handler runs on
// the goroutine that called Do; the lane gives the orders.
type grouped struct {
	ctx    context.Context //nolint:containedctx // of the member's Do, for the time of the call
	orders chan order      // capacity 1
	answer chan answer     // capacity 1

	solitary bool // the set that it was in failed: it gets a call to itself
	ran      bool // its handler returned nil in a transaction that was undone
	result   Outcome
	err      error
	size     int // of the group that committed it
}

type orderKind uint8

const (
	orderRun   orderKind = iota // the handler, in the group's transaction
	orderAlone                  // in a transaction of its own
	orderEnd                    // the fate is decided
)

type order struct {
	kind orderKind
	// tctx and sess are those of the group (orderRun).
	tctx context.Context //nolint:containedctx // handed over
	sess Session
	// detached tells the lane that it need not wait for this member any more
	// (orderAlone).
	detached func()
}

// answer is what became of one call of a handler.
type answer struct {
	err     error
	already bool
	alone   bool // it asked to run alone
	left    bool // it panicked or left its goroutine

	gathered *gathered // not yet: it waits for the call of a set
}

// failed tells whether the member must not be committed.
func (a answer) failed() bool { return a.left || a.err != nil || a.alone }

// end tells a member its fate.
func (m *member) end(out Outcome, err error) {
	m.result, m.err = out, err
	m.orders <- order{kind: orderEnd}
}

// alone has members run each in a transaction of its own; nobody waits for them.
func alone(ms ...*member) {
	for _, m := range ms {
		m.orders <- order{kind: orderAlone, detached: func() {}}
	}
}

// join waits for the member's turn and does what the lane says.
func (b *Inbox) join(ctx context.Context, m *member) (Outcome, error) {
	m.grouped = grouped{ctx: ctx, orders: make(chan order, 1), answer: make(chan answer, 1)}
	l := b.lane(ctx, m.claim.Consumer)
	l.enter(m)
	gone := ctx.Done()
	for {
		select {
		case o := <-m.orders:
			switch o.kind {
			case orderRun:
				b.obey(m, o)
			case orderAlone:
				return b.runAlone(ctx, m, o.detached)
			case orderEnd:
				return m.result, m.err
			}
		case <-gone:
			if l.withdraw(m) {
				return b.notBegun(ctx, m, context.Cause(ctx))
			}
			gone = nil // it is in a group by now, which sees the end, too
		}
	}
}

// obey runs the handler in the group's transaction. When the handler panics or
// leaves, what it did is undone before that goes on up.
func (b *Inbox) obey(m *member, o order) {
	a := answer{left: true}
	defer func() {
		m.answer <- a
		if a.left {
			<-m.orders // the transaction is undone
		}
	}()
	Claimed(m.ctx)
	s := &scope{inbox: b, claim: m.claim, outer: scopeOf(m.ctx), grouped: true, member: m, sess: o.sess}
	already, err := b.call(m.ctx, o.tctx, o.sess, m, s)
	a = answer{err: err, already: already, alone: s.wantsAlone.Load() || errors.Is(err, errAlone)}
}

// runAlone runs the member in a transaction of its own. The lane waits for it,
// unless its handler says that it wants to be alone anyway.
func (b *Inbox) runAlone(ctx context.Context, m *member, detached func()) (Outcome, error) {
	defer detached()
	m.detached = detached
	return b.twice(ctx, m)
}
