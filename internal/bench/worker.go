package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"time"
)

// workerVariable makes this program one instance of a system; it holds the job.
const workerVariable = "SEKALI_BENCH_WORKER"

// news is what an instance tells, a line each time: when it is ready, ten times a second, and at its end.
type news struct {
	Settled int64  `json:"settled"`
	First   int64  `json:"first"` // Unix time, ns
	Last    int64  `json:"last"`
	Undone  int64  `json:"undone"`
	Failed  int64  `json:"failed"`
	Nacked  int64  `json:"nacked"`
	Why     string `json:"why"` // the first failure
	End     bool   `json:"end"`
}

// work is an instance: ready, then it waits for a line, consumes until its input ends, and finishes what it runs.
func work(spec string, in io.Reader, out io.Writer) error {
	j := &job{meter: newMeter(0)}
	if err := json.Unmarshal([]byte(spec), j); err != nil {
		return err
	}
	s, err := find(j.System)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(out)
	tell := func(end bool) error {
		m := j.meter
		n := news{
			Settled: m.settled.Load(), First: m.first.Load(), Last: m.last.Load(),
			Undone: m.undone.Load(), Failed: m.failed.Load(), Nacked: m.nacked.Load(), End: end,
		}
		if err := m.firstFailure(); err != nil {
			n.Why = err.Error()
		}
		return encoder.Encode(n)
	}
	if err := tell(false); err != nil {
		return err
	}
	lines := bufio.NewReader(in)
	if _, err := lines.ReadString('\n'); err != nil {
		return fmt.Errorf("wait for the start: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, lines) // until the parent closes it, or dies
		cancel()
		time.AfterFunc(stall*2/3, func() { // it should have ended: say where it is
			_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		})
	}()
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, j) }()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := tell(false); err != nil {
				return err
			}
		case err := <-ended:
			if err != nil && !errors.Is(ctx.Err(), context.Canceled) { // else it ended, perhaps before it was up
				return err
			}
			return tell(true)
		}
	}
}

// workerMain is main for an instance.
func workerMain(spec string) int {
	if err := work(spec, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench: instance:", err)
		return 1
	}
	return 0
}
