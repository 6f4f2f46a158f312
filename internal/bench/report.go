package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// report collects the figures of a run by name, "section/variant/system/figure", one a round.
type report struct {
	out     io.Writer
	claims  int                  // of the largest table in the keys section
	Machine string               `json:"machine"`
	Figures map[string][]float64 `json:"figures"`
	Bars    []barResult          `json:"bars"`
}

func (r *report) add(value float64, name ...string) {
	if r.Figures == nil {
		r.Figures = map[string][]float64{}
	}
	key := strings.Join(name, "/")
	r.Figures[key] = append(r.Figures[key], value)
}

// median of the rounds; false when it was not measured.
func (r *report) median(name ...string) (float64, bool) {
	return median(r.Figures[strings.Join(name, "/")])
}

func median(values []float64) (float64, bool) {
	if len(values) == 0 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2, true
}

// ratio of two medians.
func (r *report) ratio(a, b string) (float64, bool) {
	x, ok := r.median(a)
	y, ok2 := r.median(b)
	if !ok || !ok2 || y == 0 {
		return 0, false
	}
	return x / y, true
}

// figure prints the median of a figure, "-" when there is none.
func (r *report) figure(format string, name ...string) string {
	v, ok := r.median(name...)
	if !ok {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// spread prints the smallest and the largest.
func (r *report) spread(format string, name ...string) string {
	values := r.Figures[strings.Join(name, "/")]
	if len(values) == 0 {
		return "-"
	}
	return fmt.Sprintf(format+"-"+format, slices.Min(values), slices.Max(values))
}

func (r *report) ratioText(a, b string) string {
	v, ok := r.ratio(a, b)
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

// table prints rows under a title.
func (r *report) table(title string, head []string, rows [][]string, notes ...string) {
	fmt.Fprintf(r.out, "\n%s\n", title)
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(head, "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // to the terminal
	for _, n := range notes {
		fmt.Fprintln(r.out, "  "+n)
	}
}

func (r *report) write(path string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o600)
}

// describe says on what all this runs.
func (b *bench) describe(ctx context.Context) error {
	if b.report.out == nil {
		b.report.out = os.Stdout
	}
	b.report.claims = b.claims
	var version string
	if err := b.world.pool.QueryRow(ctx, "SHOW server_version").Scan(&version); err != nil {
		return err
	}
	b.report.Machine = fmt.Sprintf("%d processors, %s, PostgreSQL %s, RabbitMQ %v; %d rounds, medians",
		runtime.NumCPU(), runtime.Version(), version, b.world.conn.Properties["version"], b.rounds)
	if load := loadAverage(); load > 1 {
		b.report.Machine += fmt.Sprintf("; load average %.1f at the start: other work weighs on the figures, on some more than on others", load)
	}
	fmt.Fprintln(b.report.out, b.report.Machine)
	return nil
}

// progress is for those who wait.
func (b *bench) progressf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
