package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sekali-mq/sekali/internal/testservices"
)

// The short form: every disturbance once, one right after the other.
func TestNothingIsLostUnderDisturbance(t *testing.T) {
	testservices.RabbitMQ(t) // skips without services
	r, err := soak(t.Context(), 8*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := r.print(&out); err != nil {
		t.Error(err)
	}
	t.Log("\n" + out.String())
	if faults := r.faults(); len(faults) > 0 {
		t.Errorf("broken: %s", strings.Join(faults, "; "))
	}
}

// The check can fail.
func TestFaultsAreNoticed(t *testing.T) {
	good := report{
		confirmed: 10, effects: 8, missing: 2, destroyed: 2, crashes: 1, deleted: 3,
		goroutinesBefore: 4, goroutinesAfter: 4, heap: []uint64{50 << 20, 52 << 20},
	}
	if faults := good.faults(); len(faults) > 0 {
		t.Fatalf("a good run has faults: %v", faults)
	}
	for name, spoil := range map[string]func(*report){
		"lost":       func(r *report) { r.effects--; r.missing++ },
		"phantom":    func(r *report) { r.strangers++ },
		"goroutines": func(r *report) { r.goroutinesAfter++ },
		"heap":       func(r *report) { r.heap = append(r.heap, 90<<20) },
		"unmeasured": func(r *report) { r.heap = nil },
		"no crash":   func(r *report) { r.crashes = 0 },
	} {
		bad := good
		spoil(&bad)
		if len(bad.faults()) == 0 {
			t.Errorf("%s: not noticed", name)
		}
	}
}

func TestScriptIsFoundFromBelow(t *testing.T) {
	path, err := findScript()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	t.Chdir(t.TempDir())
	if _, err := findScript(); err == nil {
		t.Error("found outside of the checkout")
	}
}
