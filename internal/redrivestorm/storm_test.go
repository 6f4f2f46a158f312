package main

import (
	"os"
	"testing"

	"github.com/sekali-mq/sekali/internal/testservices"
)

// TestMain is the redriving process, too.
func TestMain(m *testing.M) {
	if spec := os.Getenv(childVariable); spec != "" {
		os.Exit(childMain(spec))
	}
	os.Exit(m.Run())
}

func TestNothingIsLostOrDoubledThoughTheRedrivingProcessIsKilled(t *testing.T) {
	r, err := storm(t.Context(), config{letters: 300, kills: 4, postgres: testservices.Postgres(t), rabbit: testservices.NewVirtualHost(t)})
	t.Log(r)
	if err != nil {
		t.Fatal(err)
	}
	if r.kills != 4 || r.lost+r.doubled+r.strange != 0 {
		t.Errorf("%s", r)
	}
}
