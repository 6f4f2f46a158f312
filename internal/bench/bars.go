package main

import "fmt"

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
