package main

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// memory sends a million messages through S4 and looks at the process ten times on the way.
func (b *bench) memory(ctx context.Context) error {
	s, err := find("S4")
	if err != nil {
		return err
	}
	// As in service: else a million dead rows would be what is measured.
	for _, on := range []bool{true, false} {
		if _, err := b.world.pool.Exec(ctx, fmt.Sprintf("ALTER TABLE stock SET (autovacuum_enabled = %t)", on)); err != nil {
			return err
		}
		if !on {
			break
		}
		if err := b.remember(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) remember(ctx context.Context, s system) error {
	var rows [][]string
	look := func(n int64) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		heap, rss, goroutines := float64(m.HeapAlloc)/(1<<20), float64(self().resident())/(1<<20), runtime.NumGoroutine()
		b.report.add(heap, "memory/heap")
		b.report.add(rss, "memory/rss")
		rows = append(rows, []string{fmt.Sprint(n), fmt.Sprintf("%.1f", heap), fmt.Sprintf("%.1f", rss), fmt.Sprint(goroutines)})
		b.progressf("memory: %d messages, heap %.1f MB, resident %.1f MB", n, heap, rss)
	}
	before := runtime.NumGoroutine()
	j := b.job(s, b.many, 0)
	j.meter.each = int64(max(1, b.many/10))
	j.meter.mark = look
	r, err := b.measure(ctx, s, j)
	if err != nil {
		return err
	}
	// Some are on their way out still.
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	b.report.add(float64(runtime.NumGoroutine()-before), "memory/goroutines left")
	b.report.table(fmt.Sprintf("Memory over %d messages through S4, MB", b.many), []string{"settled", "heap after GC", "resident", "goroutines"}, rows,
		fmt.Sprintf("%.0f msg/s; goroutines before the start %d, after the end %d", r.Rate, before, runtime.NumGoroutine()))
	return nil
}
