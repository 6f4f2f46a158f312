package main

import (
	"strings"
	"testing"

	"github.com/sekali-mq/sekali/internal/testservices"
)

func TestEveryOrderTakesEffectOnceOnWatermillAMQP(t *testing.T) {
	testservices.Postgres(t)
	testservices.RabbitMQ(t)
	r, err := sell(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	if !r.holds() || r.sent != 81 || r.processed != 60 || r.lostAcks < 10 {
		t.Errorf("report: %+v", r)
	}
}

func TestMissingServersAreNamed(t *testing.T) {
	t.Setenv(postgresVariable, "postgres://localhost/x")
	t.Setenv(rabbitVariable, "")
	if _, err := sell(t.Context(), 60); err == nil || !strings.Contains(err.Error(), rabbitVariable) {
		t.Errorf("got %v", err)
	}
}

// The check can fail.
func TestFaultsAreNoticed(t *testing.T) {
	good := report{duplicates: 1, letters: 1}
	for name, spoil := range map[string]func(*report){
		"lost": func(r *report) { r.lost = 1 }, "doubled": func(r *report) { r.doubled = 1 },
		"left": func(r *report) { r.left = 1 }, "no letter": func(r *report) { r.letters = 0 },
	} {
		bad := good
		if spoil(&bad); bad.holds() || !good.holds() {
			t.Errorf("%s: not noticed", name)
		}
	}
}
