package sqlstore

import (
	"fmt"
	"slices"
)

// Marks are the statements of one text that set, release or return to a
// savepoint, in order.
type Marks []mark

type mark struct {
	kind markKind
	name string // upper case, whatever the database's rule: a later one of the name is taken for it, which only keeps an error longer
}

type markKind uint8

const (
	sets markKind = iota
	releases
	returns
)

// Points are the savepoints of a transaction, each with the error that doomed
// the transaction when it was set: a ROLLBACK TO undoes what came after the
// savepoint, and nothing that was before.
type Points struct {
	set []savepoint
}

type savepoint struct {
	name   string
	doomed error
}

// Send notes the savepoints of a text that is about to be sent: they may be set
// even when a later statement of the text fails. One too many only keeps an error
// longer.
func (p *Points) Send(ms Marks, doomed error) {
	for _, m := range ms {
		if m.kind != sets {
			return // what follows depends on it
		}
		p.set = append(p.set, savepoint{m.name, doomed})
	}
}

// Done takes a text that succeeded, and returns what dooms the transaction now.
// An unknown savepoint undoes nothing: it may be as old as the transaction, or
// younger than the error.
func (p *Points) Done(ms Marks, doomed error) error {
	begun := false // Send has the first ones
	for _, m := range ms {
		i := p.index(m.name)
		switch {
		case m.kind == sets && begun:
			p.set = append(p.set, savepoint{m.name, doomed})
		case m.kind == sets:
		case i < 0:
			begun = true
		case m.kind == releases:
			begun = true
			p.set = p.set[:i]
		default:
			begun = true
			p.set = p.set[:i+1]
			doomed = p.set[i].doomed
		}
	}
	return doomed
}

// Foreign is the error of a text that releases or returns to a savepoint which is
// not of these: in a group it may be another handler's.
func (p *Points) Foreign(ms Marks) error {
	known := make(map[string]bool, len(p.set))
	for _, s := range p.set {
		known[s.name] = true
	}
	for _, m := range ms {
		if m.kind != sets && !known[m.name] {
			return fmt.Errorf("savepoint %s refused: this handler did not set it, and another one of its group may have", m.name)
		}
		known[m.name] = true
	}
	return nil
}

func (p *Points) index(name string) int {
	for i, s := range slices.Backward(p.set) {
		if s.name == name {
			return i
		}
	}
	return -1
}
