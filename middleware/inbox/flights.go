package inbox

import (
	"context"
	"sync"
	"time"
)

// flights lets one copy of a claim at a time go to the database. The others
// wait in memory: a waiting copy would otherwise occupy a connection, and fifty
// copies of one message would empty the pool.
type flights struct {
	mu sync.Mutex
	m  map[flight]*turn
}

type flight struct{ consumer, key string }

type turn struct {
	token chan struct{} // capacity 1: whoever has sent is in flight
	users int           // in flight or waiting; guarded by flights.mu
}

// enter waits for the claim's turn, at most for wait. It returns ErrBusy when
// the wait ran out and the cause of ctx when that ended first.
func (f *flights) enter(ctx context.Context, c Claim, wait time.Duration) (leave func(), err error) {
	id := flight{c.Consumer, c.Key}
	f.mu.Lock()
	if f.m == nil {
		f.m = make(map[flight]*turn)
	}
	t := f.m[id]
	if t == nil {
		t = &turn{token: make(chan struct{}, 1)}
		f.m[id] = t
	}
	t.users++
	f.mu.Unlock()

	select {
	case t.token <- struct{}{}:
	default:
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case t.token <- struct{}{}:
		case <-timer.C:
			f.drop(id, t)
			return nil, ErrBusy
		case <-ctx.Done():
			f.drop(id, t)
			return nil, context.Cause(ctx)
		}
	}
	return func() {
		<-t.token
		f.drop(id, t)
	}, nil
}

// waiting counts the copies that wait for another one.
func (f *flights) waiting(consumer string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, t := range f.m {
		if id.consumer == consumer {
			n += t.users - 1
		}
	}
	return n
}

func (f *flights) drop(id flight, t *turn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t.users--
	if t.users == 0 {
		delete(f.m, id)
	}
}
