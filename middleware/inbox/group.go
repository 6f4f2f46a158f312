package inbox

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// groupBudget is how long a group goes on starting handlers; those that were not
	// started wait for the next one.
	groupBudget = 200 * time.Millisecond
	// groupLockWait bounds the wait for the claims of a group: it would be everybody's.
	groupLockWait = 100 * time.Millisecond
	// After a deadlock the groups of a consumer lock a name, each alone, before their
	// claims, and those of other instances do when they meet that. For how long must
	// not hang on who met whom, or they would keep each other at it for ever: all end
	// when the clock begins a new lockPeriod, and for lockPause, which is more than
	// clocks differ by, no one begins because of others.
	lockPeriod = time.Minute
	lockPause  = time.Second
	// A group whose handlers take longer than slowMember each waits more than it works,
	// for the way to the database for instance. After slowGroups of them in a row, which
	// a commit that is waited for does not make, another one runs beside the one at
	// work, up to maxGroups, as soon as fewestBeside members wait. Quick ones would only
	// become smaller and so cost more: 0.9 of the speed of one at a time, see
	// internal/bench. Not for crowdedFor after a deadlock: they would meet again.
	slowMember   = 500 * time.Microsecond
	slowGroups   = 4
	fewestBeside = 8
	maxGroups    = 4
	crowdedFor   = 10 * time.Minute
	// soloRuns are how many members run alone before a group is tried again.
	soloRuns = 64
)

// errAlone is what Alone returns in a group.
var errAlone = errors.New("the handler asked to run alone: return this error unchanged, the message is run again by itself")

// lanes are the queues of members that wait to share a transaction: one for each
// consumer, and for each tenant of it.
type lanes struct {
	mu sync.Mutex
	m  map[laneKey]*lane
}

type laneKey struct{ consumer, tenant string }

// lane gathers the members that come while a transaction runs into the next one.
// There is no timer: who comes to an idle lane runs at once. Slow groups run side by
// side, as those of several instances do.
type lane struct {
	inbox *Inbox
	key   laneKey

	mu     sync.Mutex
	queue  []*member // waiting, oldest first
	serves int       // at work
	most   int       // serves at once
	slow   int       // groups in a row whose handlers were
	limit  int       // members of the next group
	solo   int       // so many are to run alone before the next group
	off    bool      // a handler ended the transaction: no groups any more
	locked time.Time // until then groups lock alone

	crowded time.Time // until then one group runs at a time

	committing chan struct{} // closed when the last commit beside the lane is over
}

func (b *Inbox) lane(ctx context.Context, consumer string) *lane {
	k := laneKey{consumer: consumer}
	if b.config.Tenant != nil {
		k.tenant = b.config.Tenant(ctx)
	}
	b.lanes.mu.Lock()
	defer b.lanes.mu.Unlock()
	l := b.lanes.m[k]
	if l == nil {
		if b.lanes.m == nil {
			b.lanes.m = make(map[laneKey]*lane)
		}
		l = &lane{inbox: b, key: k, limit: b.config.Group, most: mostGroups(b.store)}
		b.lanes.m[k] = l
	}
	return l
}

// Waiting tells how many Do of a consumer wait in this process: for a copy that is
// in flight, or for the transaction that they will share with others.
func (b *Inbox) Waiting(consumer string) int {
	n := b.flights.waiting(consumer)
	b.lanes.mu.Lock()
	defer b.lanes.mu.Unlock()
	for k, l := range b.lanes.m {
		if k.consumer == consumer {
			l.mu.Lock()
			n += len(l.queue)
			l.mu.Unlock()
		}
	}
	return n
}

// enter queues m, and has the lane served.
func (l *lane) enter(m *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, m)
	if l.serves == 0 || l.slow >= slowGroups && l.serves < l.most && len(l.queue) >= fewestBeside && time.Now().After(l.crowded) {
		l.serves++
		go l.serve()
	}
}

// mostGroups of a consumer at once. A connection is left for the group that commits
// and for members that run alone.
func mostGroups(s Store) int {
	if !overlaps(s) {
		return 1
	}
	if p, ok := s.(Pooled); ok && p.MaxOpen() > 0 {
		return max(1, min(maxGroups, p.MaxOpen()-1))
	}
	return maxGroups
}

// ran notes how long the handlers of a group took.
func (l *lane) ran(members int, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if took <= time.Duration(members)*slowMember {
		l.slow = 0
		return
	}
	l.slow++
}

// withdraw takes m out of the queue; false when it was taken already.
func (l *lane) withdraw(m *member) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, q := range l.queue {
		if q == m {
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			return true
		}
	}
	return false
}

// serve runs one transaction after the other until nobody waits. Several may be at
// work.
func (l *lane) serve() {
	for {
		ms, apart := l.take()
		switch {
		case len(ms) == 0:
			return
		case apart:
			alone(ms...)
		case len(ms) == 1:
			over, detached := context.WithCancel(context.Background())
			ms[0].orders <- order{kind: orderAlone, detached: detached}
			<-over.Done()
		default:
			back := l.runGroup(ms)
			l.mu.Lock()
			l.queue = append(back, l.queue...)
			l.mu.Unlock()
		}
	}
}

// beside commits one group while the next one runs: it sends no statement any more,
// so it waits for nothing that the next one holds, and who needs its rows waits for
// the commit. One at a time: it takes one connection more.
func (l *lane) beside(commit func()) {
	over := make(chan struct{})
	l.mu.Lock()
	before := l.committing
	l.committing = over
	l.mu.Unlock()
	if before != nil {
		<-before
	}
	go func() {
		defer close(over)
		commit()
	}()
}

// take returns the members of the next transaction, or those that shall run each
// in one of its own.
func (l *lane) take() (ms []*member, apart bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.queue), l.limit, MaxGroup)
	switch {
	case len(l.queue) == 0:
		l.queue = nil
		l.serves--
		return nil, false
	case l.off:
		n, apart = len(l.queue), true
	case l.solo > 0:
		n, apart = min(len(l.queue), l.solo), true
		l.solo -= n
	}
	ms = l.queue[:n:n]
	l.queue = l.queue[n:]
	return ms, apart
}

// shrink halves the next groups: one of their members failed, and all had to run
// again.
func (l *lane) shrink() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limit /= 2; l.limit < 2 {
		l.limit, l.solo = 2, soloRuns
	}
}

// apart has the next members run alone: these handlers asked for it.
func (l *lane) apart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.solo = soloRuns
}

func (l *lane) grow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit += min(l.limit, l.inbox.config.Group-l.limit)
}

// takeTurns has the groups lock alone for a while: this one met a deadlock, or
// another instance that does.
func (l *lane) takeTurns() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.locked, l.crowded = now.Truncate(lockPeriod).Add(lockPeriod), now.Add(crowdedFor)
}

// lock tells what a group locks before its claims, and how.
func (l *lane) lock() (name string, mode LockMode) {
	l.mu.Lock()
	locked := l.locked
	l.mu.Unlock()
	return cmp.Or(l.inbox.config.GroupLock, l.key.consumer), lockMode(time.Now(), locked)
}

func lockMode(now, locked time.Time) LockMode {
	switch {
	case now.Before(locked):
		return LockAlone
	case now.Sub(now.Truncate(lockPeriod)) < lockPause:
		return LockShared
	}
	return LockYielding
}

// disband ends group commit for this consumer.
func (l *lane) disband() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.off = true
}
