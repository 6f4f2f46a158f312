package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// settings of a run.
type settings struct {
	rows, old int
	workers   int
	window    time.Duration
	rest      time.Duration
	limit     time.Duration
	batches   []int
	pause     time.Duration
	index     string
}

func main() {
	var s settings
	var batches string
	flag.IntVar(&s.rows, "rows", 5_000_000, "claims in the table")
	flag.IntVar(&s.old, "old", 1_000_000, "claims of them that are old")
	flag.IntVar(&s.workers, "workers", 8, "consumers that claim at full rate")
	flag.DurationVar(&s.window, "window", 3*time.Second, "how long the purge is at work at a time")
	flag.DurationVar(&s.rest, "rest", 3*time.Second, "how long it rests in between")
	flag.DurationVar(&s.limit, "limit", 0, "stop each purge after that; 0: never")
	flag.StringVar(&batches, "batches", "0", "batch sizes of the purges, one after the other, with commas; 0 is the default")
	flag.DurationVar(&s.pause, "pause", 0, "pause of the purges; 0 is the default, negative is none")
	flag.StringVar(&s.index, "index", "", "index on the time: btree or brin; none otherwise")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := s.parse(batches)
	if err == nil {
		err = s.run(ctx)
	}
	if err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "purgebench:", err)
		os.Exit(1)
	}
}

func (s *settings) parse(batches string) error {
	for part := range strings.SplitSeq(batches, ",") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return fmt.Errorf("-batches: %w", err)
		}
		s.batches = append(s.batches, n)
	}
	return nil
}

func (s *settings) run(ctx context.Context) (err error) {
	url := os.Getenv("SEKALI_POSTGRES_URL")
	if url == "" {
		return errors.New("SEKALI_POSTGRES_URL is not set: scripts/services run -- go run ./internal/purgebench")
	}
	start := time.Now()
	d, err := makeDatabase(ctx, url, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.drop()) }()
	fmt.Printf("%d claims, %d of them old, %d consumers; made in %s\n\n", s.rows, s.old, s.workers, time.Since(start).Round(time.Second))
	fmt.Printf("%-24s %8s %9s %10s %9s %9s %9s\n", "", "time", "claims", "claims/s", "p50", "p99", "max")
	for _, batch := range s.batches {
		if err := s.purge(ctx, d, batch); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// purge runs once, with rests, beside those who claim.
func (s *settings) purge(ctx context.Context, d *database, batch int) error {
	pctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.limit > 0 {
		pctx, cancel = context.WithTimeout(ctx, s.limit)
		defer cancel()
	}
	var m meter
	var p inbox.Purged
	var err error
	without, with := m.beside(ctx, d.box, s.workers, func() {
		m.turn()
		last := time.Now()
		p, err = d.box.Purge(pctx, consumer, inbox.PurgeOptions{Keep: keep, Batch: batch, Pause: s.pause, Progress: func(inbox.Purged) {
			if time.Since(last) < s.window {
				return
			}
			m.turn()
			wait(pctx, s.rest)
			m.turn()
			last = time.Now()
		}})
		m.turn()
		wait(ctx, s.rest)
		m.turn()
	})
	if s.limit > 0 && errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	without.print("purge rests")
	with.print(fmt.Sprintf("purge at work, batch %d", batch))
	fmt.Printf("  looked at %d, deleted %d, %.0f looked at a second of work, %d claims failed; p99 at work is %.2f of that at rest\n\n",
		p.Looked, p.Deleted, float64(p.Looked)/with.took.Seconds(), m.failed.Load(), float64(with.percentile(99))/float64(max(without.percentile(99), 1)))
	return err
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
