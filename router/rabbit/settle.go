package rabbit

import (
	"slices"
	"sync"
	"sync/atomic"
)

// acker is what a settler needs of the channel.
type acker interface {
	Ack(tag uint64, multiple bool) error
	Nack(tag uint64, multiple, requeue bool) error
}

// settler tells the broker what became of the deliveries of one channel. Acks
// that are ready together and leave no unsettled delivery below them go out as
// one frame.
//
// It holds the channel, not the connection: a delivery is settled where it came
// from or nowhere. On a dead channel settling is a no-op that is counted; the
// broker has put the delivery back already.
type settler struct {
	ch   acker
	late *atomic.Int64

	mu      sync.Mutex
	acks    []uint64
	returns []uint64
	closed  bool
	wake    chan struct{}
	done    chan struct{}

	// Of the writing goroutine only.
	low     uint64              // every tag below it is settled
	settled map[uint64]struct{} // settled tags above it
	dead    bool
}

func newSettler(ch acker, late *atomic.Int64) *settler {
	s := &settler{ch: ch, late: late, low: 1, settled: make(map[uint64]struct{}), wake: make(chan struct{}, 1), done: make(chan struct{})}
	go s.run()
	return s
}

// settle hands over one delivery. It does not block.
func (s *settler) settle(tag uint64, ack bool) {
	s.mu.Lock()
	if ack {
		s.acks = append(s.acks, tag)
	} else {
		s.returns = append(s.returns, tag)
	}
	s.mu.Unlock()
	s.ring()
}

func (s *settler) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// close writes what is left and ends; done tells when.
func (s *settler) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.ring()
}

func (s *settler) run() {
	defer close(s.done)
	var acks, returns []uint64
	for range s.wake {
		s.mu.Lock()
		acks, s.acks = s.acks, acks[:0]
		returns, s.returns = s.returns, returns[:0]
		closed := s.closed
		s.mu.Unlock()
		s.write(acks, returns)
		if closed {
			return
		}
	}
}

func (s *settler) write(acks, returns []uint64) {
	for _, tag := range returns {
		s.do(1, func() error { return s.ch.Nack(tag, false, true) })
		s.settled[tag] = struct{}{}
	}
	slices.Sort(acks)
	// The longest run from the bottom of which each tag is settled or about to be.
	// The tag that is named must be an unsettled one, or the broker closes the
	// channel.
	run, last := 0, uint64(0)
	for {
		if run < len(acks) && acks[run] == s.low {
			last = s.low
			run++
		} else if _, ok := s.settled[s.low]; ok {
			delete(s.settled, s.low)
		} else {
			break
		}
		s.low++
	}
	if run > 0 {
		s.do(run, func() error { return s.ch.Ack(last, run > 1) })
	}
	for _, tag := range acks[run:] {
		s.do(1, func() error { return s.ch.Ack(tag, false) })
		s.settled[tag] = struct{}{}
	}
}

func (s *settler) do(n int, f func() error) {
	if !s.dead && f() != nil {
		s.dead = true
	}
	if s.dead {
		s.late.Add(int64(n))
	}
}
