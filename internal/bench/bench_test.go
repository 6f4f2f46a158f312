package main

import (
	"strings"
	"testing"

	"github.com/sekali-mq/sekali/internal/testservices"
)

// Every section with every system, on a few messages: what it prints means nothing, but each measurement checks its books.
func TestEverySectionKeepsItsBooks(t *testing.T) {
	var out strings.Builder
	b := &bench{
		sections: []string{"all"}, queues: []string{"classic", "quorum"}, rounds: 1, messages: 200, wide: 1000,
	}
	b.report.out = &out
	if err := b.run(t.Context(), testservices.Postgres(t), testservices.RabbitMQ(t)); err != nil {
		t.Fatal(err)
	}
	for _, s := range systems {
		for _, kind := range b.queues {
			if v, ok := b.report.median("throughput", kind, s.name, "msg/s"); !ok || v <= 0 {
				t.Errorf("%s on a %s queue: %v msg/s", s.name, kind, v)
			}
		}
	}
	for _, bar := range b.report.Bars {
		if !strings.Contains(out.String(), bar.What) {
			t.Errorf("the bar %q was judged and not printed", bar.What)
		}
	}
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
