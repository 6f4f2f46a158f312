package main

import (
	"fmt"
	"slices"
)

// bar is what the project asks of itself.
type bar struct {
	what   string
	wanted float64
	most   bool // wanted is the most, not the least
	got    func(r *report) (float64, bool)
}

type barResult struct {
	What   string  `json:"what"`
	Wanted float64 `json:"wanted"`
	Most   bool    `json:"most"`
	Got    float64 `json:"got"`
	Pass   bool    `json:"pass"`
}

// speed compares the medians of two systems in the throughput section, on the classic queue.
func speed(a, b string) func(r *report) (float64, bool) {
	return func(r *report) (float64, bool) {
		return r.ratio("throughput/classic/"+a+"/msg/s", "throughput/classic/"+b+"/msg/s")
	}
}

var bars = []bar{
	{"groups on pgx to no claim at all: S4/P0", 2, false, speed("S4", "P0")},
	{"groups on pgx to Watermill by hand, 32 subscribers: S4/P2", 5, false, speed("S4", "P2")},
	{"groups on pgx to Watermill by hand, one subscriber: S4/P1", 10, false, speed("S4", "P1")},
	{"groups on pgx to one session without a broker: S4/L1", 0.65, false, speed("S4", "L1")},
	{"groups on lib/pq to no claim at all: S3/P0", 1, false, speed("S3", "P0")},
	{"groups on lib/pq to Watermill by hand, 32 subscribers: S3/P2", 3, false, speed("S3", "P2")},
	{"set-based to no claim at all: S5/P0", 4, false, speed("S5", "P0")},
	{"single on pgx to amqp091-go by hand: S2/P3", 1.15, false, speed("S2", "P3")},
	{"single on lib/pq to Watermill by hand, 32 subscribers: S1/P2", 1, false, speed("S1", "P2")},
	{"p99 of groups at a steady rate to amqp091-go by hand: S4/P3", 1.2, true, func(r *report) (float64, bool) { return r.ratio("latency/S4/p99", "latency/P3/p99") }},
	{"four processes in groups on hot rows to one", 0.8, false, func(r *report) (float64, bool) {
		return r.ratio("instances/hot/S4/4/msg/s", "instances/hot/S4/1/msg/s")
	}},
	{"and what failed or became a letter there", 0, true, func(r *report) (float64, bool) {
		_, ok := r.median("instances/hot/S4/4/msg/s")
		const name = "instances/hot/S4/4/"
		return sum(r.Figures[name+"failed"]) + sum(r.Figures[name+"nacked"]) + sum(r.Figures[name+"letters"]), ok
	}},
	{"groups with 1 in 100 failing after its write to none: S4", 0.5, false, func(r *report) (float64, bool) {
		return r.ratio("failures/after/S4/msg/s", "failures/none/S4/msg/s")
	}},
	{"and the most runs of a good message's handler there", 2, true, worst("failures/after/S4/most-runs")},
	{"claims beside many old ones, keys in the order of time, to an empty table", 0.8, false, old("claims/s")},
	{"and of S4 as a whole", 0.8, false, old("msg/s")},
	{"heap at the end of the memory section to that after a tenth", 1.2, true, growth("memory/heap")},
	{"resident memory the same", 1.2, true, growth("memory/rss")},
	{"goroutines left behind there", 0, true, worst("memory/goroutines left")},
}

// old compares the largest table of old claims with the empty one.
func old(figure string) func(r *report) (float64, bool) {
	return func(r *report) (float64, bool) {
		return r.ratio(fmt.Sprintf("keys/%s/%s", store{timely: true, claims: r.claims}, figure), fmt.Sprintf("keys/%s/%s", store{timely: true}, figure))
	}
}

func worst(name string) func(r *report) (float64, bool) {
	return func(r *report) (float64, bool) {
		values := r.Figures[name]
		if len(values) == 0 {
			return 0, false
		}
		return slices.Max(values), true
	}
}

// growth from the first to the last of a series.
func growth(name string) func(r *report) (float64, bool) {
	return func(r *report) (float64, bool) {
		values := r.Figures[name]
		if len(values) < 2 || values[0] == 0 {
			return 0, false
		}
		return values[len(values)-1] / values[0], true
	}
}

// judge prints which bars were reached; those that were not measured are left out.
func (b *bench) judge() {
	var rows [][]string
	for _, bar := range bars {
		got, ok := bar.got(&b.report)
		if !ok {
			continue
		}
		pass, sign := got >= bar.wanted, ">="
		if bar.most {
			pass, sign = got <= bar.wanted, "<="
		}
		b.report.Bars = append(b.report.Bars, barResult{bar.what, bar.wanted, bar.most, got, pass})
		rows = append(rows, []string{bar.what, fmt.Sprintf("%s %.2f", sign, bar.wanted), fmt.Sprintf("%.2f", got), map[bool]string{true: "pass", false: "FAIL"}[pass]})
	}
	if len(rows) > 0 {
		b.report.table("Bars", []string{"", "wanted", "got", ""}, rows)
	}
}
