package sqlstore

import (
	"sync/atomic"
)

// churnStep is how many transactions pass between two looks at the pool.
const churnStep = 1000

// churn remembers how many idle connections the pool had closed at the last
// look. database/sql does not tell its idle limit; what it does to the
// connections shows.
type churn struct {
	begun  atomic.Int64
	closed atomic.Int64
	said   atomic.Bool
}

// watchPool says once when the pool closes connections that the next
// transaction opens again: an idle limit below the concurrency, which halves
// the speed. The default limit is 2.
func (s *Store) watchPool() {
	if s.churn.said.Load() || s.churn.begun.Add(1)%churnStep != 0 {
		return
	}
	closed := s.db.Stats().MaxIdleClosed
	n := closed - s.churn.closed.Swap(closed)
	// All of them: no idle limit but no idle connections at all, as where a pool
	// of the driver's own lies below.
	if n < churnStep/10 || n >= churnStep*99/100 || !s.churn.said.CompareAndSwap(false, true) {
		return
	}
	s.o.Logger.Warn("the pool closes connections and opens them again: raise db.SetMaxIdleConns to the number of handlers that run at once",
		"closed", n, "transactions", churnStep)
}
