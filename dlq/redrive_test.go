package dlq_test

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/internal/letter"
)

// fill collects n new letters and returns their ids.
func (r *rig) fill(n int) (ids []int64) {
	r.Helper()
	for i := range n {
		r.must(r.collect(r.died(fmt.Sprintf("key-%d", i), "x")))
	}
	for l, err := range r.letters.Each(r.Context(), dlq.Filter{}, dlq.OldestFirst) {
		r.must(err)
		ids = append(ids, l.ID)
	}
	return ids
}

func TestARedrivenMessageIsTheOneThatDied(t *testing.T) {
	r := newRig(t, databases[3], dlq.Config{})
	at := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	l := r.store(delivered(queue+".dlq", &letter.Delivery{
		Exchange: "ex", RoutingKey: "rk", Body: []byte{0, 1, 2},
		Properties: letter.Properties{MessageID: "m1", CorrelationID: "c", UserID: "alice", Expiration: "60000", Timestamp: at, Priority: 4, Type: "t"},
		Headers: map[string]any{
			"event_id": int64(7), "list": []any{int32(1), nil}, "dec": letter.Decimal{Scale: 1, Value: 5}, "x-own": "kept", "nil": nil,
			"CC": []any{"copies"}, "BCC": []any{"blind"}, "x-death": []any{map[string]any{"queue": queue, "reason": "rejected", "count": int64(1), "time": at}},
			"x-first-death-queue": "elsewhere", "x-delivery-count": int64(3), "reason_poisoned": "old",
			letter.HeaderReason: "no stock", letter.HeaderQueue: queue, letter.HeaderConsumer: queue, letter.HeaderLetterKey: "7", letter.HeaderAttempt: "10",
			letter.HeaderClaimedAt: r.clock().Format(time.RFC3339Nano), letter.HeaderFirstFailure: "2026-07-01T10:00:00Z", letter.HeaderWaits: "2",
			letter.HeaderFingerprint: "01ff", letter.HeaderHistory: "2026-06-01T10:00:00Z failed \"orders\" 10\n", letter.HeaderExchange: "ex",
		},
	}))
	r.redrive(all())
	sent := r.pub.take()
	if len(sent) != 1 || string(sent[0].Payload) != "\x00\x01\x02" {
		t.Fatalf("%d sent", len(sent))
	}
	props, headers := wire(sent[0])
	want := letter.Properties{MessageID: "m1", CorrelationID: "c", Timestamp: at, Priority: 4, Type: "t"}
	if props != want {
		t.Errorf("properties %+v", props)
	}
	history, _ := headers[letter.HeaderHistory].(string)
	if strings.Count(history, "\n") != 3 || !strings.Contains(history, "2026-06-01T10:00:00Z") || !strings.Contains(history, "rejected") {
		t.Errorf("history %q", history)
	}
	delete(headers, letter.HeaderHistory)
	wantHeaders := map[string]any{
		"event_id": int64(7), "list": []any{int32(1), nil}, "dec": letter.Decimal{Scale: 1, Value: 5}, "x-own": "kept", "nil": nil,
		letter.HeaderUserID: "alice", letter.HeaderExpiration: "60000", letter.HeaderRedrive: fmt.Sprintf("%d/1", l.ID),
	}
	if !reflect.DeepEqual(headers, wantHeaders) {
		t.Errorf("headers\n got %v\nwant %v", headers, wantHeaders)
	}
}

func TestADryRunChangesNothingAndTellsWhatTheRunDoes(t *testing.T) {
	each(t, func(r *rig) {
		ids := r.fill(7)
		r.process("key-1", "x")
		r.process("key-2", "y")
		r.store(r.died("", "x"))
		c := all()
		before := r.states()
		plan, err := r.letters.Plan(r.Context(), c)
		r.must(err)
		if got := r.states(); !maps.Equal(got, before) || len(r.pub.take()) != 0 || r.history(ids[0]) != "collected" {
			r.Errorf("the dry run changed %v to %v", before, got)
		}
		if runs, err := r.letters.Runs(r.Context(), 0); err != nil || len(runs) != 0 {
			r.Errorf("%v, %v", runs, err)
		}
		run := r.redrive(c)
		if !reflect.DeepEqual(plan.Counts, run.Counts) || plan.Sent != 5 || plan.Queues[queue] != 5 {
			r.Errorf("plan %+v\n run %+v", plan.Counts, run.Counts)
		}
		// Two claims were committed after all of these died.
		if plan.Older != 5 || plan.OrderUnknown != 0 {
			r.Errorf("older %d, unknown %d", plan.Older, plan.OrderUnknown)
		}
	})
}
