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

// The same when orders share transactions, which a kill takes all at once.
func TestGroupsTakeEffectOnceAlthoughProcessesAreKilled(t *testing.T) {
	testservices.Postgres(t)
	testservices.RabbitMQ(t)
	for driver := range driverNames {
		t.Run(driver, func(t *testing.T) {
			r, err := sell(t.Context(), options{messages: 1000, kills: 5, poison: 10, group: 64, processes: 2, driver: driver, timeout: 100 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if !r.holds() || r.Kills != 5 || r.Claims != 2000 || r.Grouped == 0 {
				t.Errorf("an invariant is broken: %+v", r)
			}
		})
	}
}

// Orders that failed for good are letters, whatever was killed meanwhile, and after
// the fix each of them takes effect once.
func TestOrdersThatFailedAreRedrivenAfterTheFix(t *testing.T) {
	testservices.Postgres(t)
	testservices.RabbitMQ(t)
	for name, o := range map[string]options{
		"nothing is killed":    {messages: 100, driver: "pq"},
		"processes are killed": {messages: 200, kills: 2, driver: "pgx"},
	} {
		t.Run(name, func(t *testing.T) {
			o.poison, o.processes, o.timeout = 10, 2, 100*time.Second
			r, err := sell(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if !r.holds() || r.Kills != o.kills || r.Claims != 2*o.messages {
				t.Errorf("an invariant is broken: %+v", r)
			}
			if r.DeadLetters != 10 || r.Redriven != 10 || r.Left != 0 {
				t.Errorf("dead letters: %+v", r)
			}
		})
	}
}

// As many orders are gifts as were asked for, and they are spread.
func TestGiftsAreSpreadOverTheOrders(t *testing.T) {
	for _, c := range []struct{ messages, gifts int }{{1000, 0}, {1000, 20}, {1000, 200}, {101, 7}, {5, 1}} {
		n, last := 0, -1
		for id := range c.messages {
			if !newOrder(id, c.messages, c.gifts).Gift {
				continue
			}
			if n > 0 && id-last < c.messages/c.gifts {
				t.Errorf("%v: %d and %d are gifts", c, last, id)
			}
			n, last = n+1, id
		}
		if n != c.gifts {
			t.Errorf("%v: %d gifts", c, n)
		}
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
		"too much poison":     func(o *options) { o.poison = 21 },
		"negative poison":     func(o *options) { o.poison = -1 },
		"adopt and poison":    func(o *options) { o.messages, o.adopt, o.poison = 1000, true, 1 },
		"negative group":      func(o *options) { o.group = -1 },
		"adopt and group":     func(o *options) { o.messages, o.adopt, o.group = 1000, true, 64 },
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

// A letter that is missing, was not sent, or is left, is told.
func TestBrokenBooksOfLettersAreReported(t *testing.T) {
	good := report{Orders: 10, Poison: 2, DeadLetters: 2, Redriven: 2}
	for name, spoil := range map[string]func(r *report){
		"as it must be": func(*report) {},
		"missing":       func(r *report) { r.DeadLetters = 1 },
		"not sent":      func(r *report) { r.Redriven = 1 },
		"left":          func(r *report) { r.Left = 1 },
	} {
		r := good
		spoil(&r)
		r.judge([]book{{service: "stock", effects: 10, claims: 10}, {service: "mail", effects: 10, claims: 10}}, 0)
		if r.holds() != (name == "as it must be") {
			t.Errorf("%s: %q", name, r.Problems)
		}
	}
}
