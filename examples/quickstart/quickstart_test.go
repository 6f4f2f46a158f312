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
	if back["lost"] != 0 || back["doubled"] != 0 || back["duplicates"] == 0 || back["dead_letters"] != 3 {
		t.Errorf("printed %s", out.String())
	}
}

// A report with a fault does not hold: the check can fail.
func TestFaultsAreNoticed(t *testing.T) {
	good := report{Duplicates: 1, DeadLetters: len(consumers)}
	for name, bad := range map[string]report{
		"lost":          {Duplicates: 1, DeadLetters: len(consumers), Lost: 1},
		"doubled":       {Duplicates: 1, DeadLetters: len(consumers), Doubled: 1},
		"no duplicates": {DeadLetters: len(consumers)},
		"no letter":     {Duplicates: 1},
	} {
		if bad.holds() || !good.holds() {
			t.Errorf("%s: not noticed", name)
		}
	}
}
