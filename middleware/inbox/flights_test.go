package inbox

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Copies of one claim go one at a time; other claims do not wait for them.
func TestFlightsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flights
		var inside, most atomic.Int64
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				leave, err := f.enter(t.Context(), Claim{Consumer: "c", Key: "k"}, time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				most.Store(max(most.Load(), inside.Add(1)))
				<-time.After(time.Second)
				inside.Add(-1)
				leave()
			})
		}
		synctest.Wait()
		start := time.Now()
		for _, other := range []Claim{{Consumer: "c", Key: "l"}, {Consumer: "d", Key: "k"}} {
			leave, err := f.enter(t.Context(), other, time.Minute)
			if err != nil || time.Since(start) != 0 {
				t.Errorf("%s waited %s: %v", other, time.Since(start), err)
			}
			leave()
		}
		wg.Wait()
		if most.Load() != 1 {
			t.Errorf("%d copies in flight at once", most.Load())
		}
		if len(f.m) != 0 {
			t.Errorf("%d turns kept", len(f.m))
		}
	})
}

func TestFlightsWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flights
		c := Claim{Consumer: "c", Key: "k"}
		leave, err := f.enter(t.Context(), c, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := f.enter(t.Context(), c, time.Second); !errors.Is(err, ErrBusy) || time.Since(start) != time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := f.enter(ctx, c, time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		leave()
		if len(f.m) != 0 {
			t.Errorf("%d turns kept", len(f.m))
		}
	})
}
