package settle

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

var (
	errBroken = errors.New("broken")
	errDown   = &inbox.Error{Op: "claim", Class: inbox.ClassDown, Err: errors.New("connection refused")}
	errConfig = &inbox.Error{Op: "claim", Class: inbox.ClassConfig, Err: errors.New("no such table")}
	errUndone = &inbox.Error{Op: "commit", Class: inbox.ClassTransient, Err: errors.New("deadlock")}
)

func run(fn func(attempt int) (inbox.Outcome, error)) func(context.Context, int) (inbox.Outcome, error) {
	return func(_ context.Context, attempt int) (inbox.Outcome, error) { return fn(attempt) }
}

// A failing message is tried again in place, with waits, and given up within the
// in-place bound: it must not hold up those behind it.
func TestPlainErrorBecomesLetterWithinInPlaceBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		calls := 0
		v := New(inbox.DefaultPolicy(), nil).Settle(t.Context(), Delivery{Consumer: "c", Run: run(func(attempt int) (inbox.Outcome, error) {
			calls++
			if attempt != calls {
				t.Errorf("attempt %d in call %d", attempt, calls)
			}
			return inbox.Failed, errBroken
		})})
		if v.Action != inbox.DeadLetter || !errors.Is(v.Reason, errBroken) || v.Attempts != calls {
			t.Fatalf("verdict %+v after %d calls", v, calls)
		}
		if calls < 3 || calls > 10 {
			t.Errorf("%d attempts", calls)
		}
		if spent := time.Since(start); spent > 5*time.Second {
			t.Errorf("spent %s in place", spent)
		}
		if v.FirstFailure.IsZero() {
			t.Error("first failure not noted")
		}
	})
}

// Attempts of earlier deliveries count.
func TestAttemptsAreBoundedOverDeliveries(t *testing.T) {
	v := New(inbox.DefaultPolicy(), nil).Settle(t.Context(), Delivery{Consumer: "c", Before: letter.Facts{Attempts: 9}, Run: run(func(attempt int) (inbox.Outcome, error) {
		if attempt != 10 {
			t.Errorf("attempt %d", attempt)
		}
		return inbox.Failed, errBroken
	})})
	if v.Action != inbox.DeadLetter || v.Attempts != 10 {
		t.Fatalf("verdict %+v", v)
	}
}

// What the database undid is repeated but is no attempt.
func TestTransientErrorIsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		v := New(inbox.DefaultPolicy(), nil).Settle(t.Context(), Delivery{Consumer: "c", Run: run(func(attempt int) (inbox.Outcome, error) {
			calls++
			if attempt != 1 {
				t.Errorf("attempt %d in call %d", attempt, calls)
			}
			if calls < 4 {
				return inbox.Failed, errUndone
			}
			return inbox.Processed, nil
		})})
		if v.Action != inbox.Ack || v.Attempts != 0 || calls != 4 {
			t.Fatalf("verdict %+v after %d calls", v, calls)
		}
	})
}

// A database that is away for minutes costs no attempt and no letter; one probe
// at a time asks for it, however many deliveries wait.
func TestDownIsHeldWithOneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(inbox.DefaultPolicy(), nil)
		back := time.Now().Add(5 * time.Minute)
		var calls, inside, most atomic.Int64
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				v := s.Settle(t.Context(), Delivery{Consumer: "c", Run: run(func(int) (inbox.Outcome, error) {
					calls.Add(1)
					if n := inside.Add(1); n > most.Load() && time.Now().After(back.Add(-4*time.Minute)) {
						most.Store(n)
					}
					defer inside.Add(-1)
					if time.Now().Before(back) {
						return inbox.Failed, errDown
					}
					return inbox.Processed, nil
				})})
				if v.Action != inbox.Ack || v.Attempts != 0 {
					t.Errorf("verdict %+v", v)
				}
			})
		}
		wg.Wait()
		// 32 first runs, a probe every 5 s at the most often half that, 32 last runs.
		if n := calls.Load(); n < 64+20 || n > 64+600 {
			t.Errorf("%d runs in 5 minutes", n)
		}
	})
}

// Each consumer is held for itself.
func TestHoldDoesNotStopOtherConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(inbox.DefaultPolicy(), nil)
		ctx, cancel := context.WithCancel(t.Context())
		held := make(chan Verdict)
		go func() {
			held <- s.Settle(ctx, Delivery{Consumer: "bad", Run: run(func(int) (inbox.Outcome, error) { return inbox.Failed, errConfig })})
		}()
		synctest.Wait()
		v := s.Settle(t.Context(), Delivery{Consumer: "good", Run: run(func(int) (inbox.Outcome, error) { return inbox.Processed, nil })})
		if v.Action != inbox.Ack {
			t.Fatalf("verdict %+v", v)
		}
		cancel()
		if v := <-held; v.Action != inbox.Requeue || v.Attempts != 0 {
			t.Fatalf("held verdict %+v", v)
		}
	})
}

// When the leader is cancelled another delivery takes the lead; when it panics
// or leaves its goroutine, too.
func TestLeadIsPassedOn(t *testing.T) {
	for name, leave := range map[string]func(){
		"panic":  func() { panic("boom") },
		"goexit": func() { runtime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(inbox.Policy{MaxAttempts: 1, InPlace: time.Second}, nil)
				var calls atomic.Int64
				up := make(chan struct{})
				var wg sync.WaitGroup
				for i := range 4 {
					wg.Go(func() {
						s.Settle(t.Context(), Delivery{Consumer: "c", Run: run(func(int) (inbox.Outcome, error) {
							n := calls.Add(1)
							if i == 0 && n > 4 {
								leave()
							}
							select {
							case <-up:
								return inbox.Processed, nil
							default:
								return inbox.Failed, errDown
							}
						})})
					})
				}
				<-time.After(time.Minute) // by the clock of the bubble
				close(up)
				wg.Wait()
			})
		})
	}
}

// A delivery is not kept until the broker's consumer timeout.
func TestHoldEndsBeforeConsumerTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := New(inbox.DefaultPolicy(), nil)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				v := s.Settle(t.Context(), Delivery{Consumer: "c", Run: run(func(int) (inbox.Outcome, error) { return inbox.Failed, errConfig })})
				if v.Action != inbox.Requeue {
					t.Errorf("verdict %+v", v)
				}
			})
		}
		wg.Wait()
		if kept := time.Since(start); kept < holdFor || kept > holdFor+time.Minute {
			t.Errorf("kept for %s", kept)
		}
	})
}

// When all of the last messages died the consumer stops by itself, lets one
// through at a time, and goes on after the first that lives.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(inbox.DefaultPolicy(), nil)
		healed := false
		one := func() Verdict {
			return s.Settle(t.Context(), Delivery{Consumer: "c", Run: run(func(int) (inbox.Outcome, error) {
				if healed {
					return inbox.Processed, nil
				}
				return inbox.Failed, inbox.Permanent(errBroken)
			})})
		}
		start := time.Now()
		for range breakerDeaths {
			if v := one(); v.Action != inbox.DeadLetter {
				t.Fatalf("verdict %+v", v)
			}
		}
		if time.Since(start) != 0 {
			t.Fatalf("held before %d letters in a row", breakerDeaths)
		}
		for range 5 {
			one()
		}
		if time.Since(start) < 100*time.Millisecond {
			t.Error("not held after a row of letters")
		}
		healed = true
		one()
		start = time.Now()
		for range 100 {
			one()
		}
		if time.Since(start) != 0 {
			t.Error("still held after a message got through")
		}
	})
}

// A shutdown gives the delivery back at once, whatever it waits for.
func TestShutdownRequeues(t *testing.T) {
	for name, err := range map[string]error{"retry": errBroken, "wait": errUndone, "hold": errDown} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan Verdict)
				go func() {
					done <- New(inbox.DefaultPolicy(), nil).Settle(ctx, Delivery{Consumer: "c", Run: run(func(int) (inbox.Outcome, error) { return inbox.Failed, err })})
				}()
				synctest.Wait()
				start := time.Now()
				cancel()
				if v := <-done; v.Action != inbox.Requeue || time.Since(start) != 0 {
					t.Fatalf("verdict %+v after %s", v, time.Since(start))
				}
			})
		})
	}
}

var (
	errOwnConfig = &inbox.Error{Op: "handle", Class: inbox.ClassConfig, Claimed: true, Err: errors.New("no such column")}
	errOwnLost   = &inbox.Error{Op: "commit", Class: inbox.ClassDown, Claimed: true, Err: errors.New("bad connection")}
)

// A mistake in the SQL of one message's handler stops nobody else, and once
// others got through it is that message's own fault.
func TestSetUpErrorOfOneMessageStopsNobody(t *testing.T) {
	for name, bad := range map[string]error{"set-up": errOwnConfig, "lost connection": errOwnLost} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(inbox.DefaultPolicy(), nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan Verdict, 1)
				go func() {
					done <- s.Settle(ctx, Delivery{Consumer: "c", Run: run(func(int) (inbox.Outcome, error) { return inbox.Failed, bad })})
				}()
				synctest.Wait()
				start := time.Now()
				for range 20 {
					if v := s.Settle(t.Context(), Delivery{Consumer: "c", Run: run(func(int) (inbox.Outcome, error) { return inbox.Processed, nil })}); v.Action != inbox.Ack {
						t.Fatalf("verdict %+v", v)
					}
				}
				if waited := time.Since(start); waited != 0 {
					t.Errorf("good messages waited %s", waited)
				}
				v := <-done
				if want := map[string]inbox.Action{"set-up": inbox.DeadLetter, "lost connection": inbox.Requeue}[name]; v.Action != want {
					t.Errorf("verdict %+v, want %s", v, want)
				}
				if spent := time.Since(start); spent > time.Minute {
					t.Errorf("decided after %s", spent)
				}
			})
		})
	}
}

// While nobody gets through, a wrong set-up makes no letters.
func TestSetUpErrorOfAllIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(inbox.DefaultPolicy(), nil)
		mended := time.Now().Add(10 * time.Minute)
		var calls atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				v := s.Settle(t.Context(), Delivery{Consumer: "c", Run: run(func(int) (inbox.Outcome, error) {
					calls.Add(1)
					if time.Now().Before(mended) {
						return inbox.Failed, errOwnConfig
					}
					return inbox.Processed, nil
				})})
				if v.Action != inbox.Ack || v.Attempts != 0 {
					t.Errorf("verdict %+v", v)
				}
			})
		}
		wg.Wait()
		if n := calls.Load(); n > 8*600 {
			t.Errorf("%d runs in ten minutes", n)
		}
	})
}

// A leader that has got its claim lets the others through, however long its
// handler takes.
func TestSlowLeaderHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(inbox.DefaultPolicy(), nil)
		var down atomic.Bool
		down.Store(true)
		start := time.Now()
		var wg sync.WaitGroup
		var slow atomic.Bool
		for range 6 {
			wg.Go(func() {
				s.Settle(t.Context(), Delivery{Consumer: "c", Run: func(ctx context.Context, _ int) (inbox.Outcome, error) {
					if down.Load() {
						return inbox.Failed, errDown
					}
					inbox.Claimed(ctx)
					if slow.CompareAndSwap(false, true) {
						<-time.After(time.Hour)
					} else if waited := time.Since(start); waited > 2*time.Minute {
						t.Errorf("waited %s behind the leader", waited)
					}
					return inbox.Processed, nil
				}})
			})
		}
		<-time.After(time.Minute)
		down.Store(false)
		wg.Wait()
	})
}

// What a delivery was held for too long goes to the delayed retry: a return
// would count against the broker's delivery limit, and so an outage would make
// letters.
func TestHoldEndsInDelayedRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := inbox.DefaultPolicy()
		p.Delays = []time.Duration{5 * time.Second}
		v := New(p, nil).Settle(t.Context(), Delivery{Consumer: "c", Before: letter.Facts{Waits: 3}, Run: run(func(int) (inbox.Outcome, error) { return inbox.Failed, errDown })})
		if v.Action != inbox.Delay || v.Wait != 5*time.Second || v.Attempts != 0 || v.Waits != 3 {
			t.Errorf("verdict %+v", v)
		}
	})
}

// The breaker counts failures of the handler only: messages without a key and
// conflicts tell nothing of it.
func TestBreakerCountsHandlersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(inbox.DefaultPolicy(), nil)
		start := time.Now()
		for i := range 5 * breakerDeaths {
			s.Settle(t.Context(), Delivery{Consumer: "c", Run: run(func(int) (inbox.Outcome, error) {
				if i%2 == 0 {
					return inbox.Failed, inbox.Permanent(inbox.ErrNoKey)
				}
				return inbox.Conflict, inbox.ErrConflict
			})})
		}
		if time.Since(start) != 0 {
			t.Errorf("held for %s", time.Since(start))
		}
	})
}

// A delayed retry whose queue is gone ends as a letter that says so; the message
// does not keep its place for ever.
func TestDelayThatCannotBePublishedBecomesALetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got letter.Facts
		v := Verdict{Action: inbox.Delay, Wait: time.Second, Reason: errBroken, Attempts: 2}
		gone := errors.New("no such queue")
		ack := v.CarryOut(t.Context(), t.Context(), inbox.Claim{Consumer: "c"}, letter.Facts{Queue: "q"}, Exits{
			Delay:   func(context.Context, letter.Facts, time.Duration) (time.Duration, error) { return 0, gone },
			Letter:  func(_ context.Context, f letter.Facts) error { got = f; return nil },
			Timeout: time.Second, Log: slog.New(slog.DiscardHandler),
		})
		if !ack || !errors.Is(got.Reason, gone) || !errors.Is(got.Reason, errBroken) || got.Attempts != 2 {
			t.Errorf("ack %v, letter %+v", ack, got)
		}
	})
}

// What an operator puts back is known to be ill: its deaths must not hold the
// consumer, whose other messages are well.
func TestDeathsOfRedrivenLettersDoNotHoldTheConsumer(t *testing.T) {
	s := New(inbox.DefaultPolicy(), nil)
	for range 2 * breakerDeaths {
		v := s.Settle(t.Context(), Delivery{Consumer: "c", Before: letter.Facts{Redriven: true}, Run: run(func(int) (inbox.Outcome, error) {
			return inbox.Failed, inbox.Permanent(errBroken)
		})})
		if v.Action != inbox.DeadLetter {
			t.Fatalf("%+v", v)
		}
	}
	if s.gate("c").broken() {
		t.Error("the consumer is held")
	}
}
