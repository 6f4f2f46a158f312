package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

const (
	cutEvery = 5 * time.Second
	patience = time.Minute
	// fill is how many messages there are in the queue that is deleted full.
	fill = 5_000
	// fastest rate that the books have room for.
	fastest = 50_000
)

// running is one run.
type running struct {
	broker  *broker
	books   *books
	traffic *traffic
	report  report

	mu sync.Mutex // held while connections must not be cut
}

func run(ctx context.Context, b *broker, length time.Duration) (*report, error) {
	version, err := b.version()
	if err != nil {
		return nil, err
	}
	r := &running{broker: b, books: newBooks(fastest * int(length/time.Second+60))}
	r.report = report{version: version, goroutinesBefore: runtime.NumGoroutine()}
	began := time.Now()
	if r.traffic, err = startTraffic(ctx, b.url, r.books); err != nil {
		return nil, err
	}
	stopCuts := r.startCuts(ctx)
	err = r.disturb(ctx, began, length)
	stopCuts()
	r.report.took = time.Since(began)
	if ctx.Err() != nil {
		err = errors.Join(err, context.Cause(ctx))
	}
	err = errors.Join(err, r.traffic.end(func() error { return r.drained(ctx) })) //nolint:contextcheck // closing has a deadline of its own
	r.report.settle(r.books)
	r.report.stats = r.traffic.sub.Stats()
	// The last goroutines of closed connections take a moment to go.
	_ = wait(context.WithoutCancel(ctx), 10*time.Second, func() bool {
		r.report.goroutinesAfter = runtime.NumGoroutine()
		return r.report.goroutinesAfter <= r.report.goroutinesBefore
	})
	return &r.report, err
}

// disturb does one thing after the other, each at its time or as soon as the one
// before it is done.
func (r *running) disturb(ctx context.Context, began time.Time, length time.Duration) error {
	for _, step := range []struct {
		at int // in eighths of the whole
		do func(ctx context.Context) error
	}{
		{1, r.crash}, {2, r.measure}, {3, r.deleteDrained}, {4, r.measure},
		{5, r.deleteDrained}, {6, r.measure}, {7, r.deleteFilled}, {8, r.measure},
	} {
		select {
		case <-time.After(time.Until(began.Add(length / 8 * time.Duration(step.at)))):
		case <-ctx.Done():
			return nil
		}
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// measure notes the live heap.
func (r *running) measure(context.Context) error {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r.report.heap = append(r.report.heap, m.HeapAlloc)
	return nil
}

func (r *running) startCuts(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var cutting sync.WaitGroup
	cutting.Go(func() {
		tick := time.NewTicker(cutEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			// A broker that is down, or does not list the connections yet, is asked
			// again.
			_ = wait(ctx, cutEvery, func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				n, err := r.broker.cut(ctx, name)
				r.books.connections.Add(int64(n))
				return err == nil && n > 0
			})
		}
	})
	return func() { cancel(); cutting.Wait() }
}

func (r *running) crash(ctx context.Context) error {
	began, before := time.Now(), r.books.confirmed.Load()
	if err := r.broker.crash(ctx); err != nil {
		return err
	}
	if err := wait(ctx, patience, func() bool { return r.books.confirmed.Load() > before+10*batch }); err != nil {
		return fmt.Errorf("publishing did not go on after the crash: %w", err)
	}
	r.books.crashes.Add(1)
	r.report.crashTook = time.Since(began)
	return nil
}

// drained waits until every confirmed message took effect and none is left.
func (r *running) drained(ctx context.Context) error {
	err := wait(ctx, patience, func() bool {
		if r.books.effects.Load()+r.books.destroyed.Load() < r.books.confirmed.Load() {
			return false
		}
		n, err := r.broker.ready(queue)
		return err == nil && n == 0
	})
	if err != nil {
		// Not an error of the run: the books will show it.
		r.report.undrained++
	}
	return nil
}

// deleteDrained deletes the queue when nothing is in it.
func (r *running) deleteDrained(ctx context.Context) error {
	r.traffic.publish.shut()
	defer r.traffic.publish.release()
	_ = r.drained(ctx)
	if _, err := r.broker.remove(queue); err != nil {
		return fmt.Errorf("delete the empty queue: %w", err)
	}
	r.books.deleted.Add(1)
	return r.back(ctx)
}

// deleteFilled deletes the queue with messages in it. Handlers keep what they
// have in hand until then, and nothing is cut: no message is there twice.
func (r *running) deleteFilled(ctx context.Context) error {
	r.traffic.publish.shut()
	defer r.traffic.publish.release()
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.drained(ctx)
	r.traffic.consume.shut()
	defer r.traffic.consume.release()
	for target := r.books.confirmed.Load() + fill; r.books.confirmed.Load() < target && ctx.Err() == nil; {
		r.traffic.publishBatch(ctx)
	}
	n, err := r.broker.remove(queue)
	if err != nil {
		return fmt.Errorf("delete the filled queue: %w", err)
	}
	r.books.destroyed.Add(int64(n))
	r.books.deleted.Add(1)
	return r.back(ctx)
}

// back waits until the subscriber has declared the queue again: until then a
// message has nowhere to go.
func (r *running) back(ctx context.Context) error {
	err := wait(ctx, patience, func() bool { _, err := r.broker.ready(queue); return err == nil })
	if err != nil {
		return fmt.Errorf("the queue was not declared again: %w", err)
	}
	return nil
}

// wait polls until f says so.
func wait(ctx context.Context, limit time.Duration, f func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
