package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// report is what a run came to.
type report struct {
	Driver        string   `json:"driver"`
	Orders        int      `json:"orders"`
	Published     int      `json:"published"`
	Deliveries    int      `json:"deliveries"`
	Processed     int      `json:"processed"`
	Duplicates    int      `json:"duplicates"`
	Claims        int      `json:"claims"`
	Poison        int      `json:"poison"`
	Group         int      `json:"group"`
	Grouped       int      `json:"grouped"`      // processed in a transaction with others
	DeadLetters   int      `json:"dead_letters"` // all that there were, one a consumer and order
	Redriven      int      `json:"redriven"`     // of them sent back to their queues
	Left          int      `json:"left"`         // dead letters at the end
	Lost          int      `json:"lost"`
	Doubled       int      `json:"doubled"`
	Kills         int      `json:"kills"`
	ProducerKills int      `json:"producer_kills"`
	Restarts      []string `json:"restarts"`
	Seconds       float64  `json:"seconds"`
	// Problems has a sentence for each thing that is not as it must be.
	Problems []string `json:"problems"`
	// Adoption is nil without -adopt.
	Adoption *adoption `json:"adoption,omitempty"`

	books []book
}

// judge fills in what the books say.
func (r *report) judge(books []book, kills int) {
	r.books = books
	for _, b := range books {
		r.Lost += b.lost
		r.Doubled += b.doubled
		r.Left += b.letters
		if r.Poison == 0 {
			r.DeadLetters += b.letters
		}
		r.Claims += b.claims
		if b.claims != r.Orders {
			r.problemf("%s: %d claims for %d orders", b.service, b.claims, r.Orders)
		}
	}
	if r.Lost > 0 {
		r.problemf("%d effects are lost", r.Lost)
	}
	if r.Doubled > 0 {
		r.problemf("%d effects are doubled", r.Doubled)
	}
	if r.Left > 0 {
		r.problemf("%d dead letters are left", r.Left)
	}
	if r.Poison > 0 && (r.DeadLetters != r.Poison || r.Redriven != r.Poison) {
		r.problemf("%d dead letters and %d redriven for %d orders that failed", r.DeadLetters, r.Redriven, r.Poison)
	}
	if r.Group > 1 && r.Grouped == 0 {
		r.problemf("no order shared a transaction")
	}
	if r.Adoption != nil {
		r.Problems = append(r.Problems, r.Adoption.problems()...)
	}
	if r.Kills < kills {
		r.problemf("%d of %d kills", r.Kills, kills)
	}
}

func (r *report) problemf(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// holds tells whether all is as it must be.
func (r *report) holds() bool { return len(r.Problems) == 0 }

func (r *report) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	const told, exact = "as the processes told", "exact: "
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name string, n any, note string) { fmt.Fprintf(t, "%s\t%v\t%s\n", name, n, note) }
	line("orders", r.Orders, "a third of them sent twice")
	line("published", r.Published, told)
	line("deliveries", r.Deliveries, told)
	line("processed", r.Processed, told+"; a process that was killed right after a commit did not")
	if r.Group > 1 {
		line("in groups", r.Grouped, told+"; processed in a transaction with others")
	}
	line("duplicates", r.Duplicates, told)
	line("kills", r.Kills, exact+"consumers that died of SIGKILL while they worked")
	if r.ProducerKills > 0 {
		line("producer kills", r.ProducerKills, exact+"it began again and resent")
	}
	if a := r.Adoption; a != nil {
		line("by hand", a.ByHand, told+"; handled by the old release")
		line("would skip", a.WouldSkip, told+"; copies that the inbox, observing, would have skipped as the old table did")
		line("would lose", a.WouldLose, told+"; and that the old table did not know")
		line("resent", a.Resent, told+"; between the steps")
		line("enforced", fmt.Sprintf("%.1f s", a.Noticed), "after the switch of the row, by the last running process")
	}
	if r.Poison > 0 {
		line("dead letters", r.DeadLetters, exact+"orders that the stock service failed at, before it was mended")
		line("redriven", r.Redriven, exact+"proven new, and confirmed by their queue")
		line("left", r.Left, exact+"dead letters at the end")
	}
	for _, name := range r.Restarts {
		line("restarted", name, "")
	}
	line("", "", "")
	for _, b := range r.books {
		line(b.service, fmt.Sprintf("%d effects", b.effects),
			fmt.Sprintf("%slost %d, doubled %d, claims %d, dead letters %d", exact, b.lost, b.doubled, b.claims, b.letters))
	}
	line("", "", "")
	verdict := fmt.Sprintf("every order took effect once, in %.1f s", r.Seconds)
	if !r.holds() {
		verdict = "AN INVARIANT IS BROKEN"
	}
	line(verdict, "", "")
	for _, p := range r.Problems {
		line("- "+p, "", "")
	}
	return t.Flush()
}
