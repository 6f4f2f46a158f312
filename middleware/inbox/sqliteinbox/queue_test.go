package sqliteinbox

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Turns are given in order of arrival.
func TestQueueIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		leave, err := q.enter(t.Context(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				leave, err := q.enter(t.Context(), time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				leave()
			})
			synctest.Wait() // until it stands in the queue
		}
		leave()
		wg.Wait()
		for i, n := range order {
			if i != n {
				t.Fatalf("order %v", order)
			}
		}
		if leave, err := q.enter(t.Context(), 0); err != nil {
			t.Errorf("the queue is not free: %v", err)
		} else {
			leave()
		}
	})
}

// The wait is bounded by its limit and by the context, and who gives up does not
// keep the turn.
func TestQueueWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queue
		leave, err := q.enter(t.Context(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		if _, err := q.enter(t.Context(), time.Second); !errors.Is(err, inbox.ErrBusy) || time.Since(before) != time.Second {
			t.Errorf("after %s: %v", time.Since(before), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := q.enter(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("context: %v", err)
		}
		leave()
		leave, err = q.enter(t.Context(), 0)
		if err != nil {
			t.Fatalf("the queue is not free: %v", err)
		}
		leave()
	})
}

// A file has one queue, however it is named.
func TestQueueOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.db")
	if queueOf(file) != queueOf(filepath.Dir(file)+"/./a.db") {
		t.Error("two queues for one file")
	}
	unnamed := queueOf("")
	if queueOf(file) == queueOf(file+"2") || unnamed == queueOf("") {
		t.Error("one queue for two databases")
	}
}
