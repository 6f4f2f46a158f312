package main

import (
	"fmt"
	"sync/atomic"
)

// books say what became of each message. Messages are numbered. The table is as
// large at the start as at the end, so that it does not pass for a leak.
type books struct {
	seen                                     []atomic.Bool // by number: the claim
	numbered, confirmed                      atomic.Int64
	deliveries, effects, copies, strangers   atomic.Int64
	unknown, notSent, refused, unroutable    atomic.Int64
	destroyed, connections, crashes, deleted atomic.Int64
}

func newBooks(capacity int) *books { return &books{seen: make([]atomic.Bool, capacity)} }

// next gives a number that no message has; false when the books are full.
func (b *books) next() (int64, bool) {
	n := b.numbered.Add(1) - 1
	if n >= int64(len(b.seen)) {
		b.numbered.Add(-1)
		return 0, false
	}
	return n, true
}

// body is what message n says.
func body(n int64) string { return fmt.Sprintf("%-100d", n) }

// take notes a delivery: the first one of a message is its effect.
func (b *books) take(name string, payload []byte) {
	b.deliveries.Add(1)
	var n int64
	if _, err := fmt.Sscan(name, &n); err != nil || n < 0 || n >= b.numbered.Load() || string(payload) != body(n) {
		b.strangers.Add(1)
		return
	}
	if b.seen[n].Swap(true) {
		b.copies.Add(1)
		return
	}
	b.effects.Add(1)
}

// missing counts the messages without an effect.
func (b *books) missing() (n int64) {
	for i := range b.numbered.Load() {
		if !b.seen[i].Load() {
			n++
		}
	}
	return n
}
