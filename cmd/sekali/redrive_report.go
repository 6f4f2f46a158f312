package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/report"
	"github.com/sekali-mq/sekali/dlq"
)

// outcome is one line of the summary.
type outcome struct {
	what  string
	count int64
	next  string
}

// outcomes of a run, or of a plan.
func outcomes(c dlq.Counts, planned bool, run string) []outcome {
	sentNext := "wait; sekali dlq runs " + run + " says what became of them"
	if planned {
		sentNext = "-"
	}
	lines := []outcome{
		{"sent", c.Sent, sentNext},
		{"resolved: processed already", c.Resolved, "nothing, their work is done"},
		{"parked: came back too often", c.Parked, "mend the cause, then sekali dlq reopen --state parked --why ..."},
	}
	next := map[dlq.Verdict]string{
		dlq.Processed: "payload not compared: --trust-key --why ... if one key is one content",
		dlq.Conflict:  "sekali dlq list --verdict conflict; ask the producer; --as-new or discard",
		dlq.Split:     "sekali dlq list --verdict split; clean up, sekali inbox forget, redrive",
		dlq.Unknown:   "sekali dlq list --verdict unknown; look, then --accept-unknown --why ...",
		dlq.New:       "run it again",
	}
	for _, v := range dlq.Verdicts() {
		lines = append(lines, outcome{"stayed: " + string(v), c.Stayed[v], next[v]})
	}
	return append(lines,
		outcome{"stayed: maybe copies", c.Copies, "letters without a key that came twice: redrive one of each by its id"},
		outcome{"failed: waiting again", c.Failed, "sekali dlq history ID says why; mend it and redrive again"},
		outcome{"unconfirmed: sending", c.Unconfirmed, "redrive again: they are sent once more and recognised"},
		outcome{"held: sending of an earlier run", c.Held, "their consumer would not recognise a copy: look, then redrive or discard by id"})
}

func (a *app) sayOutcomes(p *report.Printer, lines []outcome) error {
	table := report.NewTable(p, func(outcome) any { return nil },
		report.Column[outcome]{Head: "LETTERS", Cell: func(o outcome) string { return strconv.FormatInt(o.count, 10) }},
		report.Column[outcome]{Head: "STATE", Cell: func(o outcome) string { return o.what }},
		report.Column[outcome]{Head: "NEXT", Cell: func(o outcome) string { return o.next }},
	)
	for _, line := range lines {
		if line.count > 0 {
			if err := table.Add(line); err != nil {
				return err
			}
		}
	}
	return table.End("No letters: there is nothing to redrive.")
}

type countsOut struct {
	Looked      int64            `json:"looked"`
	Sent        int64            `json:"sent"`
	Resolved    int64            `json:"resolved"`
	Parked      int64            `json:"parked"`
	Stayed      map[string]int64 `json:"stayed"`
	Copies      int64            `json:"copies"`
	Failed      int64            `json:"failed"`
	Unconfirmed int64            `json:"unconfirmed"`
	Held        int64            `json:"held"`
}

func newCountsOut(c dlq.Counts) countsOut {
	out := countsOut{c.Looked, c.Sent, c.Resolved, c.Parked, map[string]int64{}, c.Copies, c.Failed, c.Unconfirmed, c.Held}
	for v, n := range c.Stayed {
		out.Stayed[string(v)] = n
	}
	return out
}

type planOut struct {
	countsOut

	DryRun       bool             `json:"dry_run"`
	Queues       map[string]int64 `json:"queues"`
	Kinds        map[string]int64 `json:"kinds"`
	Why          map[string]int64 `json:"why"`
	Older        int64            `json:"older"`
	OrderUnknown int64            `json:"order_unknown"`
	Faults       string           `json:"faults,omitempty"`
	Warnings     []string         `json:"warnings,omitempty"`
}

// dryRun prints what would be done.
func (a *app) dryRun(plan dlq.Plan, ts targets) error {
	p := a.printer()
	out := planOut{
		countsOut: newCountsOut(plan.Counts), DryRun: true, Queues: plan.Queues, Kinds: plan.Kinds, Why: plan.Why,
		Older: plan.Older, OrderUnknown: plan.OrderUnknown, Warnings: ts.warnings(),
	}
	fault := ts.fit()
	if fault != nil {
		out.Faults = fault.Error()
	}
	err := p.Object(out, func() {
		p.Linef("Dry run: nothing is changed.")
		_ = a.sayOutcomes(p, outcomes(plan.Counts, true, ""))
		if len(ts) > 0 {
			p.Linef("")
			_ = sayTargets(p, ts)
		}
		if len(plan.Why) > 0 {
			p.Linef("\nWhy letters stay:")
			for _, why := range byCount(plan.Why) {
				p.Linef("  %6d  %s", plan.Why[why], report.Printable(why))
			}
		}
		if plan.Older > 0 {
			p.Linef("\nOrder: %s older than work that their consumer has done since; a redrive does not restore the order.", plural(plan.Older, "letter"))
		}
		for _, warning := range ts.warnings() {
			p.Linef("Warning: %s", report.Printable(warning))
		}
	})
	if err != nil {
		return err
	}
	if fault != nil {
		return leftf("this redrive would be refused: %s", fault)
	}
	return nil
}

func byCount(counts map[string]int64) []string {
	all := sorted(counts)
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	return all
}

func sayTargets(p *report.Printer, ts targets) error {
	table := report.NewTable(p, func(target) any { return nil },
		report.Column[target]{Head: "TO QUEUE", Cell: func(t target) string { return t.queue }},
		report.Column[target]{Head: "LETTERS", Cell: func(t target) string { return strconv.FormatInt(t.letters, 10) }},
		report.Column[target]{Head: "READY NOW", Cell: func(t target) string { return t.fact(t.ready) }},
		report.Column[target]{Head: "CONSUMERS", Cell: func(t target) string { return t.fact(t.consumers) }},
	)
	for _, t := range ts {
		if err := table.Add(t); err != nil {
			return err
		}
	}
	return table.End("")
}

func (t target) fact(n int) string {
	switch {
	case !t.known:
		return "not asked"
	case t.missing:
		return "missing"
	}
	return strconv.Itoa(n)
}

// runOut is a run in JSON.
type runOut struct {
	Run    string     `json:"run"`
	State  string     `json:"state"`
	Reason string     `json:"reason,omitempty"`
	Stale  bool       `json:"stale,omitempty"`
	Who    string     `json:"who,omitempty"`
	Why    string     `json:"why,omitempty"`
	Queues []string   `json:"queues,omitempty"`
	Begun  *time.Time `json:"begun,omitempty"`
	Last   *time.Time `json:"changed,omitempty"`
	countsOut

	Fates *fatesOut `json:"fates,omitempty"`
}

type fatesOut struct {
	Processed int64 `json:"processed"`
	Back      int64 `json:"back"`
	Open      int64 `json:"open"`
	Other     int64 `json:"other"`
}

func newRunOut(r dlq.Run, f *dlq.Fates) runOut {
	out := runOut{
		Run: r.ID, State: string(r.State), Reason: runReason(r.Reason), Stale: r.Stale, Who: r.Note.Who, Why: r.Note.Why, Queues: r.Queues,
		Begun: report.Stamp(r.BegunAt), Last: report.Stamp(r.ChangedAt), countsOut: newCountsOut(r.Counts),
	}
	if f != nil {
		out.Fates = &fatesOut{f.Processed, f.Back, f.Open, f.Other}
	}
	return out
}

// summary prints what a run did.
func (a *app) summary(run dlq.Run) error {
	p := a.printer()
	return p.Object(newRunOut(run, nil), func() {
		p.Linef("Run %s: %s, %s looked at.", run.ID, runState(run), plural(run.Counts.Looked, "letter"))
		_ = a.sayOutcomes(p, outcomes(run.Counts, false, run.ID))
	})
}

func runState(r dlq.Run) string {
	if r.Stale {
		return string(r.State) + " (its process is gone)"
	}
	if why := runReason(r.Reason); why != "" {
		return fmt.Sprintf("%s (%s)", r.State, why)
	}
	return string(r.State)
}

// runReason says why a run paused. Whatever was under way when somebody
// interrupted it is not the reason.
func runReason(reason string) string {
	for _, sign := range []string{"signal received", context.Canceled.Error()} {
		if strings.Contains(reason, sign) {
			return "interrupted"
		}
	}
	return reason
}
