package main

import (
	"os"
	"testing"
	"time"

	"github.com/sekali-mq/sekali/internal/testservices"
)

// TestMain lets the test binary be its own producer and services.
func TestMain(m *testing.M) {
	if child() {
		return
	}
	os.Exit(m.Run())
}

func TestEveryOrderTakesEffectOnceAlthoughProcessesAreKilled(t *testing.T) {
	testservices.Postgres(t)
	testservices.RabbitMQ(t)
	for driver := range driverNames {
		t.Run(driver, func(t *testing.T) {
			r, err := sell(t.Context(), options{messages: 400, kills: 3, processes: 2, driver: driver, timeout: 100 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if !r.holds() || r.Kills != 3 || r.ProducerKills != 1 {
				t.Errorf("an invariant is broken: %+v", r)
			}
			if r.Claims != 800 || r.Published < 400+134 || r.Duplicates == 0 {
				t.Errorf("the story is not the one that was to be told: %+v", r)
			}
		})
	}
}

// Old and new processes run side by side, and none of what the old ones did is
// done again.
func TestHandWrittenServicesAreSwitchedUnderLoad(t *testing.T) {
	testservices.Postgres(t)
	testservices.RabbitMQ(t)
	r, err := sell(t.Context(), options{messages: 400, kills: 5, processes: 2, driver: "pq", adopt: true, timeout: 110 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if !r.holds() || r.Kills != 5 || r.Claims != 800 {
		t.Errorf("an invariant is broken: %+v, %+v", r, r.Adoption)
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	good := options{messages: 100, processes: 1, driver: "pq", timeout: time.Minute}
	if err := good.check(nil); err != nil {
		t.Errorf("refused: %v", err)
	}
	for name, bad := range map[string]func(o *options){
		"no driver":           func(o *options) { o.driver = "mysql" },
		"no messages":         func(o *options) { o.messages = 0 },
		"no processes":        func(o *options) { o.processes = 0 },
		"too little for kill": func(o *options) { o.kills = 6 },
		"too little to adopt": func(o *options) { o.adopt = true },
		"adopt and restart":   func(o *options) { o.messages, o.adopt, o.restartDB = 1000, true, true },
	} {
		o := good
		bad(&o)
		if o.check(nil) == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}

// A lost and a doubled order are told, each by its own name.
func TestBrokenBooksAreReported(t *testing.T) {
	r := report{Orders: 10, Kills: 1}
	r.judge([]book{{service: "stock", effects: 10, lost: 1, doubled: 1, claims: 10}, {service: "mail", effects: 10, claims: 9, letters: 1}}, 2)
	if r.holds() || r.Lost != 1 || r.Doubled != 1 || r.DeadLetters != 1 || len(r.Problems) != 5 {
		t.Errorf("report: %+v", r)
	}
}
