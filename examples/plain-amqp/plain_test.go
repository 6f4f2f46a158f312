package main

import (
	"strings"
	"testing"

	"github.com/sekali-mq/sekali/internal/testservices"
)

func TestThreeLinesMakeTheLoopIdempotent(t *testing.T) {
	testservices.Postgres(t)
	testservices.RabbitMQ(t)
	after, err := run(t.Context(), options{payments: 60})
	if err != nil {
		t.Fatal(err)
	}
	if !after.holds() || after.sent != 81 || after.bookings != 60 {
		t.Errorf("after: %+v", after)
	}
	before, err := run(t.Context(), options{payments: 60, before: true})
	if err != nil {
		t.Fatal(err)
	}
	if before.holds() || before.doubled < 20 || before.lost > 0 {
		t.Errorf("the loop as it was does not show why: %+v", before)
	}
}

func TestMissingServersAreNamed(t *testing.T) {
	t.Setenv(postgresVariable, "postgres://localhost/x")
	t.Setenv(rabbitVariable, "")
	if _, err := run(t.Context(), options{payments: 60}); err == nil || !strings.Contains(err.Error(), rabbitVariable) {
		t.Errorf("got %v", err)
	}
}
