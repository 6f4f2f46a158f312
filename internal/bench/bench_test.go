package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sekali-mq/sekali/internal/testservices"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(workerVariable); spec != "" {
		os.Exit(workerMain(spec))
	}
	os.Exit(m.Run())
}

// Every section with every system, on a few messages: what it prints means nothing, but each measurement checks its books.
func TestEverySectionKeepsItsBooks(t *testing.T) {
	b := &bench{
		sections: []string{"all"}, queues: []string{"classic"}, rounds: 1, messages: 200, wide: 1000,
		processes: []int{2}, many: 500, claims: 1000, trip: time.Millisecond,
	}
	out := b.measured(t)
	for _, s := range systems {
		if v, ok := b.report.median("throughput", "classic", s.name, "msg/s"); !ok || v <= 0 {
			t.Errorf("%s: %v msg/s", s.name, v)
		}
	}
	for _, bar := range b.report.Bars {
		if !strings.Contains(out, bar.What) {
			t.Errorf("the bar %q was judged and not printed", bar.What)
		}
	}
}

// Who declares queues must find those that are there.
func TestQuorumQueuesFitEverySortOfSystem(t *testing.T) {
	b := &bench{sections: []string{"throughput"}, systems: []string{"P0", "P2", "S4", "S4h", "L2s"}, queues: []string{"quorum"}, rounds: 1, messages: 100, wide: 100}
	b.measured(t)
}

func (b *bench) measured(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	b.report.out = &out
	if err := b.run(t.Context(), testservices.Postgres(t), testservices.RabbitMQ(t)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestWrongArgumentsAreNamed(t *testing.T) {
	right := bench{rounds: 1, messages: 100, wide: 1}
	for name, c := range map[string]func(b *bench){
		`unknown section "x"`:       func(b *bench) { b.sections = []string{"x"} },
		`unknown system "P9"`:       func(b *bench) { b.systems = []string{"P9"} },
		`unknown kind of queue "x"`: func(b *bench) { b.queues = []string{"x"} },
		`-rounds`:                   func(b *bench) { b.rounds = 0 },
	} {
		b := right
		c(&b)
		if err := b.check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %s", err, name)
		}
	}
}

func TestMedianIsTheMiddle(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{{[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}, {[]float64{7}, 7}} {
		if got, ok := median(c.of); !ok || got != c.want {
			t.Errorf("median of %v: %v", c.of, got)
		}
	}
}
