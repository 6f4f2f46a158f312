package settle

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// While an operator holds a consumer its deliveries are kept as in an outage: no
// attempt, no letter, few probes, one line in the log; what was kept for
// as long as a delivery may be goes to the delayed retry, which counts nothing
// either. All go on when the consumer is resumed.
func TestHeldByAnOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := &inbox.Error{Op: `consumer "c"`, Class: inbox.ClassDown, Err: fmt.Errorf("%w: ann, since noon: migration", inbox.ErrHeld)}
		var log bytes.Buffer
		p := inbox.DefaultPolicy()
		p.Delays = inbox.DefaultDelays()
		s := New(p, slog.New(slog.NewTextHandler(&log, nil)))
		resumed := time.Now().Add(40 * time.Minute)
		var runs, delayed atomic.Int64
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				for {
					v := s.Settle(t.Context(), Delivery{Consumer: "c", Before: letter.Facts{Attempts: 9, Waits: 29}, Run: func(context.Context, int) (inbox.Outcome, error) {
						runs.Add(1)
						if time.Now().Before(resumed) {
							return inbox.Failed, held
						}
						return inbox.Processed, nil
					}})
					if v.Attempts != 9 || v.Waits != 29 {
						t.Errorf("verdict %+v", v)
					}
					if v.Action == inbox.Ack {
						return
					}
					if v.Action != inbox.Delay || v.Wait != p.Delays[0] {
						t.Errorf("verdict %+v", v)
					}
					delayed.Add(1)
					<-time.After(v.Wait)
				}
			})
		}
		wg.Wait()
		if late := time.Since(resumed); late > 10*time.Second {
			t.Errorf("went on %s after it was resumed", late)
		}
		// A probe every 5 s at the most often half that, and each delivery once or twice.
		if n := runs.Load(); n > 40*60+32*8 {
			t.Errorf("%d runs in 40 minutes", n)
		}
		if delayed.Load() == 0 {
			t.Error("nothing was given back")
		}
		if n := strings.Count(log.String(), "held by an operator"); n != 2 { // the message and the error in it
			t.Errorf("said %d times:\n%s", n, log.String())
		}
		if !strings.Contains(log.String(), "ann") || strings.Count(log.String(), "\n") != 2 {
			t.Errorf("log:\n%s", log.String())
		}
	})
}
