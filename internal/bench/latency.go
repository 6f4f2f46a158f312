package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// perSecond is the steady rate at which latency is measured: far below what each system can do.
const perSecond = 200

// latency measures how long a message takes from the moment before it is published until its effect is committed and its
// consumer turns to the ack, publisher and consumer in this process.
func (b *bench) latency(ctx context.Context) error {
	list := b.chosen("P3", "S1", "S2", "S3", "S4", "S5")
	messages := max(20, b.messages/20)
	warmup := messages / 5 // what starts up with the first ones
	for round := range b.rounds {
		for _, i := range rand.Perm(len(list)) {
			s := list[i]
			j := b.job(s, 0, uint64(round))
			if err := b.prepare(ctx, s, j); err != nil {
				return err
			}
			j.messages = messages + warmup
			j.meter = newMeter(j.messages)
			r, err := b.work(ctx, s, j, func(ctx context.Context) error { return b.world.pace(ctx, j, perSecond) })
			if err == nil {
				err = b.books(ctx, s, j)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			of := slices.Sorted(slices.Values(r.latencies[warmup:]))
			for name, p := range map[string]int{"p50": 50, "p99": 99} {
				b.report.add(float64(percentile(of, p))/float64(time.Millisecond), "latency", s.name, name)
			}
			b.progressf("latency, round %d of %d: %s p50 %s p99 %s", round+1, b.rounds, s.name, percentile(of, 50), percentile(of, 99))
		}
	}
	var rows [][]string
	for _, s := range list {
		name := "latency/" + s.name
		rows = append(rows, []string{
			s.name, b.report.figure("%.2f", name, "p50"), b.report.figure("%.2f", name, "p99"), b.report.spread("%.2f", name, "p99"),
			b.report.ratioText(name+"/p99", "latency/P3/p99"), s.what,
		})
	}
	b.report.table(fmt.Sprintf("Latency at %d messages a second, ms", perSecond), []string{"", "p50", "p99", "min-max of p99", "p99 to P3", ""}, rows,
		"from the moment before the publish to the moment before the ack, the effect being committed; publisher and consumer in one process",
		fmt.Sprintf("%d messages a round, without the first %d", messages, warmup))
	return nil
}

// percentile of sorted values.
func percentile(of []time.Duration, p int) time.Duration {
	return of[min(len(of)-1, len(of)*p/100)]
}
