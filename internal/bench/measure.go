package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"time"
)

// stall is how long a system may settle nothing before it is given up.
const stall = 30 * time.Second

// sample is what one measurement gave.
type sample struct {
	Rate      float64 // messages a second
	CPU       float64 // seconds of this process, for 10,000 messages
	ServerCPU float64 // of PostgreSQL and RabbitMQ, where they are processes of this machine
	Allocs    float64 // of this process, a message
	Bytes     float64
	Failed    int64
	Undone    int64
	latencies []time.Duration // in the order of settling
}

// usage of processor and memory until now.
type usage struct {
	own, servers time.Duration
	memory       runtime.MemStats
}

func (w *world) usage() (u usage) {
	runtime.ReadMemStats(&u.memory)
	u.own = self().cpu()
	for _, p := range w.servers {
		u.servers += p.cpu()
	}
	return u
}

// job with what all of them have in common.
func (b *bench) job(s system, messages int, seed uint64) *job {
	return &job{
		System: s.name, Broker: b.world.broker, Database: b.world.database, Queue: b.world.name, Kind: "classic", Table: sekaliTable,
		messages: messages, rows: b.wide, seed: seed, meter: newMeter(messages),
	}
}

// prepare gives the measurement fresh tables and a fresh queue, filled.
func (b *bench) prepare(ctx context.Context, s system, j *job) error {
	if err := b.world.fresh(ctx, j.rows); err != nil {
		return err
	}
	if !s.broker {
		return nil
	}
	if err := b.world.freshQueues(j.Kind); err != nil {
		return err
	}
	if err := b.world.publish(ctx, j); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

// measure fills the queue, has the system empty it, and checks the books.
func (b *bench) measure(ctx context.Context, s system, j *job) (sample, error) {
	err := b.prepare(ctx, s, j)
	var r sample
	if err == nil {
		r, err = b.work(ctx, s, j, nil)
	}
	if err == nil {
		err = b.books(ctx, s, j)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", s.name, err)
	}
	return r, nil
}

// work runs the system until all messages are settled, with beside beside it.
func (b *bench) work(ctx context.Context, s system, j *job, beside func(ctx context.Context) error) (r sample, err error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	runtime.GC() // what the one before left
	ended := make(chan error, 2)
	parts := 1
	go func() { ended <- s.run(running, j) }()
	besideOver := make(chan struct{})
	if beside != nil {
		parts++
		go func() {
			defer close(besideOver)
			ended <- beside(running)
		}()
	} else {
		close(besideOver)
	}
	wait := func(c <-chan struct{}) error {
		seen := int64(-1)
		for {
			select {
			case <-c:
				return nil
			case err := <-ended:
				parts--
				if err != nil || parts == 0 {
					return errors.Join(errors.New("ended before its messages"), err)
				}
			case <-time.After(stall):
				now := j.meter.settled.Load()
				if now == seen {
					return fmt.Errorf("nothing settled for %s, %d of %d are; the first failure: %w", stall, now, j.messages, j.meter.firstFailure())
				}
				seen = now
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	err = wait(j.meter.begun)
	before := b.world.usage()
	unprofile := func() error { return nil }
	if err == nil {
		unprofile, err = b.profile()
	}
	if err == nil {
		err = wait(j.meter.done)
	}
	if err == nil {
		err = wait(besideOver) // a message can be settled before its publisher has the confirm
	}
	after := b.world.usage()
	err = errors.Join(err, unprofile())
	stop()
	for ; parts > 0; parts-- {
		err = errors.Join(err, <-ended)
	}
	if err != nil {
		return r, err
	}
	n := float64(j.messages)
	r.Rate = rate(j.meter.settled.Load(), j.meter.took())
	r.CPU = (after.own - before.own).Seconds() / n * 10_000
	r.ServerCPU = (after.servers - before.servers).Seconds() / n * 10_000
	r.Allocs = float64(after.memory.Mallocs-before.memory.Mallocs) / n
	r.Bytes = float64(after.memory.TotalAlloc-before.memory.TotalAlloc) / n
	r.Failed, r.Undone = j.meter.failed.Load(), j.meter.undone.Load()
	r.latencies = j.meter.latencies
	return r, nil
}

// rate leaves the first message out: the clock begins when it is settled.
func rate(settled int64, took time.Duration) float64 {
	return float64(settled-1) / max(took.Seconds(), 1e-9)
}

// books compares what is in the database and on the broker with what was sent. The consumers are gone: what they had not acked
// is in the queue again.
func (b *bench) books(ctx context.Context, s system, j *job) error {
	letters := j.letters
	if j.failEvery > 0 {
		letters = j.messages / j.failEvery
	}
	good := int64(j.messages - letters)
	var errs []error
	check := func(what string, got, want int64, err error) {
		if err != nil {
			errs = append(errs, err)
		} else if got != want {
			errs = append(errs, fmt.Errorf("wrong books: %s: %d, want %d", what, got, want))
		}
	}
	check("settled", j.meter.settled.Load(), int64(j.messages), nil)
	if s.effect {
		n, err := b.world.count(ctx, "SELECT coalesce(sum(n), 0)::bigint FROM stock")
		check("sum of the effects", n, good*quantity, err)
	}
	if s.claims != "" {
		table := s.claims
		if table == sekaliTable {
			table = j.Table
		}
		n, err := b.world.count(ctx, "SELECT count(*) FROM "+table)
		check("claims", n-j.claimed, good, err)
	}
	if s.broker {
		n, err := b.world.depth(b.world.name)
		check("messages left in the queue", n, 0, err)
		n, err = b.world.depth(b.world.letterQueue())
		check("letters", n, int64(letters), err)
	}
	return errors.Join(errs...)
}

// profile writes the processor profile of the first measurement, where one is wanted.
func (b *bench) profile() (end func() error, err error) {
	if b.cpuProfile == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(b.cpuProfile)
	if err != nil {
		return nil, err
	}
	b.cpuProfile = ""
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}
