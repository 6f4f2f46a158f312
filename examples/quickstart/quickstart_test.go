package main

import (
	"bytes"
	"encoding/json"
	"testing"
)

// The shop's books hold, and the report says so in both of its forms.
func TestEveryOrderTakesEffectOnce(t *testing.T) {
	r, err := sell(t.Context(), 30)
	if err != nil {
		t.Fatal(err)
	}
	if !r.holds() || r.Published != 41 {
		t.Errorf("report %+v", r)
	}
	var out bytes.Buffer
	if err := r.print(&out, true); err != nil {
		t.Fatal(err)
	}
	var back map[string]int
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back["lost"] != 0 || back["doubled"] != 0 || back["duplicates"] == 0 ||
		back["dead_letters"] != 7 || back["redriven"] != 6 || back["came_back"] != 3 || back["resolved"] != 1 || back["left"] != 3 {
		t.Errorf("printed %s", out.String())
	}
}

// A report with a fault does not hold: the check can fail.
func TestFaultsAreNoticed(t *testing.T) {
	good := report{Orders: 10, Duplicates: 1, DeadLetters: 5, Redriven: 4, CameBack: 3, Resolved: 1, Left: 3}
	if !good.holds() {
		t.Fatalf("refused: %+v", good)
	}
	for name, spoil := range map[string]func(r *report){
		"lost":                  func(r *report) { r.Lost = 1 },
		"doubled":               func(r *report) { r.Doubled = 1 },
		"no duplicates":         func(r *report) { r.Duplicates = 0 },
		"a letter is missing":   func(r *report) { r.DeadLetters-- },
		"not redriven":          func(r *report) { r.Redriven-- },
		"processed, but sent":   func(r *report) { r.Redriven, r.Resolved = r.Redriven+1, 0 },
		"the fix did not help":  func(r *report) { r.CameBack, r.Left = r.CameBack+1, r.Left+1 },
		"a letter disappeared":  func(r *report) { r.Left-- },
		"came back, but closed": func(r *report) { r.CameBack-- },
	} {
		bad := good
		spoil(&bad)
		if bad.holds() {
			t.Errorf("%s: not noticed", name)
		}
	}
}
