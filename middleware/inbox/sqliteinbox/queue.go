package sqliteinbox

import (
	"container/list"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// queue admits one transaction at a time, in order of arrival. SQLite has one
// writer a file; without the queue the writers poll for it and some give up
// while others pass them.
type queue struct {
	mu    sync.Mutex
	busy  bool
	waits list.List // of chan struct{}
}

// queues of this process by file: two inboxes on one file must take turns.
var queues struct {
	mu sync.Mutex
	m  map[string]*queue
}

// queueOf returns the queue of a database file; a database without a file has
// its own.
func queueOf(file string) *queue {
	if file == "" {
		return new(queue)
	}
	if abs, err := filepath.Abs(file); err == nil {
		file = abs
	}
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	queues.mu.Lock()
	defer queues.mu.Unlock()
	if queues.m == nil {
		queues.m = make(map[string]*queue)
	}
	q := queues.m[file]
	if q == nil {
		q = new(queue)
		queues.m[file] = q
	}
	return q
}

// enter waits for the turn until ctx ends, at most wait.
func (q *queue) enter(ctx context.Context, wait time.Duration) (leave func(), err error) {
	q.mu.Lock()
	if !q.busy {
		q.busy = true
		q.mu.Unlock()
		return q.leave, nil
	}
	turn := make(chan struct{})
	me := q.waits.PushBack(turn)
	q.mu.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-turn:
		return q.leave, nil
	case <-timer.C:
		err = fmt.Errorf("%w: other transactions of this process were ahead for %s", inbox.ErrBusy, wait)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-turn: // it came in the same moment
		return q.leave, nil
	default:
		q.waits.Remove(me)
		return nil, err
	}
}

// leave gives the turn to the one that has waited longest.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.waits.Front(); e != nil {
		close(q.waits.Remove(e).(chan struct{})) //nolint:forcetypeassert // nothing else is put in
		return
	}
	q.busy = false
}
