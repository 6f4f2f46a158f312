package dlq_test

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

func TestALetterIsKeptWithAllThatItCameWith(t *testing.T) {
	eachDriver(t, func(r *rig) {
		at := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
		d := &letter.Delivery{
			Exchange: "ex", RoutingKey: "rk", Body: bytes.Repeat([]byte{0, 0xff, '\'', '\\'}, 50_000),
			Properties: letter.Properties{
				ContentType: "application/json", ContentEncoding: "gzip", DeliveryMode: 1, Priority: 9, CorrelationID: "c\xff", ReplyTo: "r",
				Expiration: "60000", MessageID: "m", Timestamp: at, Type: "t", UserID: "u", AppID: "a",
			},
			Headers: map[string]any{
				"nil": nil, "bool": true, "i8": int8(-8), "u8": uint8(200), "i16": int16(-16), "u16": uint16(1), "i32": int32(-1), "u32": uint32(7),
				"i64": int64(math.MaxInt64), "f32": float32(0.1), "f64": 0.1, "dec": letter.Decimal{Scale: 2, Value: 12345}, "text": "\x00\xff", "bytes": []byte{0, 1},
				"at": at, "list": []any{int32(1), nil, map[string]any{"x": []any{"y"}}}, "table": map[string]any{"a": int64(1)},
				"x-death": []any{map[string]any{"reason": "rejected", "queue": queue, "count": int64(1), "time": at, "exchange": "", "routing-keys": []any{queue}}},
			},
		}
		want := *d
		l := r.store(delivered(queue+".dlq", d))
		m := l.Message
		if m.Properties != want.Properties || !reflect.DeepEqual(m.Headers, want.Headers) || !bytes.Equal(m.Body, want.Body) || m.Exchange != "ex" || m.RoutingKey != "rk" {
			r.Errorf("changed: %+v", m)
		}
		if l.Queue != queue || l.Reason != dlq.Rejected || !l.DiedAt.Equal(at) || l.Key != "m" || l.Source != queue+".dlq" {
			r.Errorf("read as %+v", l)
		}
	})
}

func TestALetterWithAKeyThatComesTwiceIsOneLetter(t *testing.T) {
	each(t, func(r *rig) {
		first := r.store(r.died("k", "body"))
		second := r.store(r.died("k", "body"))
		if second.ID != first.ID || second.Seen != 2 || r.count(dlq.Filter{}) != 1 {
			r.Errorf("%d letters, the newest is %+v", r.count(dlq.Filter{}), second)
		}
		if !second.ClaimedAt.After(first.ClaimedAt.Add(-1)) {
			r.Errorf("the newest claim time proves most: %s, then %s", first.ClaimedAt, second.ClaimedAt)
		}
		if other := r.store(r.died("k", "other body")); other.ID == first.ID {
			r.Error("a letter with other content was merged")
		}
	})
}

func TestALetterWithoutAKeyThatComesTwiceIsMarkedAndNeverSentByFilter(t *testing.T) {
	each(t, func(r *rig) {
		first := r.store(r.died("", "body"))
		copied := r.store(r.died("", "body", map[string]any{letter.HeaderClaimedAt: first.Message.Headers[letter.HeaderClaimedAt], "x-delivery-count": int64(1)}))
		if copied.ID == first.ID || copied.CopyOf != first.ID || first.CopyOf != 0 {
			r.Fatalf("first %+v\nsecond %+v", first, copied)
		}
		c := all()
		c.AcceptUnknown, c.Note = true, note
		run := r.redrive(c)
		if run.Counts.Sent != 1 || run.Counts.Copies != 1 {
			r.Errorf("by filter: %+v", run.Counts)
		}
		r.want(copied.ID, dlq.Waiting)
		c.Filter = dlq.Filter{IDs: []int64{copied.ID}}
		if run := r.redrive(c); run.Counts.Sent != 1 {
			r.Errorf("by id: %+v", run.Counts)
		}
		sent := r.pub.take()
		_, h1 := wire(sent[0])
		_, h2 := wire(sent[1])
		if h1[letter.HeaderKey] == h2[letter.HeaderKey] {
			r.Errorf("two letters that may be distinct were sent under one key %v", h1[letter.HeaderKey])
		}
		third := r.store(r.died("", "body", map[string]any{letter.HeaderClaimedAt: first.Message.Headers[letter.HeaderClaimedAt]}))
		if third.CopyOf != first.ID {
			r.Errorf("redelivered after it was sent: %+v", third)
		}
	})
}

func TestTwoDeliveriesAtTheSameTimeMakeOneLetter(t *testing.T) {
	each(t, func(r *rig) {
		keyed, bare := r.died("k", "body"), r.died("", "body")
		var wg sync.WaitGroup
		for range 6 {
			for _, m := range []*message.Message{keyed, bare} {
				wg.Go(func() {
					if err := r.collect(m.CopyWithContext()); err != nil {
						r.Error(err)
					}
				})
			}
		}
		wg.Wait()
		letters, err := r.letters.List(r.Context(), dlq.Filter{}, dlq.OldestFirst, 0)
		r.must(err)
		originals := 0
		for _, l := range letters {
			if l.CopyOf == 0 {
				originals++
			}
		}
		if originals != 2 {
			r.Errorf("%d letters are nobody's copy, want one of each message", originals)
		}
	})
}

func TestARedriveHeaderCountsOnlyForTheLetterThatWasSent(t *testing.T) {
	each(t, func(r *rig) {
		l := r.store(r.died("k", "body"))
		r.redrive(all())
		sent := r.pub.take()[0]
		for name, change := range map[string]map[string]any{
			"other key":     {letter.HeaderLetterKey: "k2", "event_id": "k2"},
			"other content": {letter.HeaderFingerprint: "01ff"},
			"other queue":   {letter.HeaderQueue: "payments"},
			"no such row":   {letter.HeaderRedrive: "999999/1"},
			"not a number":  {letter.HeaderRedrive: "x/y"},
		} {
			m := r.again(sent, "k")
			d, _ := letter.FromContext(m.Context())
			for n, v := range change {
				d.Headers[n] = v
				m.Metadata[n], _ = letter.Text(v)
			}
			if got := r.store(m); got.ID == l.ID {
				r.Errorf("%s: taken for the letter", name)
			}
			r.want(l.ID, dlq.Sent)
		}
		r.store(r.again(sent, "k"))
		// "no such row" and "not a number" wait with the same claim already.
		r.want(l.ID, dlq.Resolved)
		if got := r.get(l.ID); got.MergedInto == 0 {
			r.Errorf("not merged: %s", r.history(l.ID))
		}
	})
}

func TestWhereALetterDied(t *testing.T) {
	r := newRig(t, databases[3], dlq.Config{})
	at := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	death := func(queue, reason string) any {
		return map[string]any{"queue": queue, "reason": reason, "count": int64(1), "time": at}
	}
	for name, c := range map[string]struct {
		headers map[string]any
		queue   string
		reason  dlq.Reason
	}{
		"own header wins":        {map[string]any{letter.HeaderQueue: "a", letter.HeaderReason: "why", "x-death": []any{death("b", "rejected")}}, "a", dlq.Failed},
		"newest death":           {map[string]any{"x-death": []any{death("a", "delivery_limit"), death("b", "rejected")}, "x-first-death-queue": "b"}, "a", dlq.DeliveryLimit},
		"not a retry queue":      {map[string]any{"x-death": []any{death("a.retry.5s", "expired"), death("a", "rejected")}, "x-first-death-queue": "a.retry.5s"}, "a", dlq.Rejected},
		"not the DLQ itself":     {map[string]any{"x-death": []any{death("orders.dlq", "expired"), death("a", "maxlen")}}, "a", dlq.MaxLen},
		"PoisonQueue":            {map[string]any{"topic_poisoned": "topic", "reason_poisoned": "bad", "handler_poisoned": "h"}, "topic", dlq.Poisoned},
		"by the name of the DLQ": {map[string]any{"colour": "red"}, "orders", dlq.Unexplained},
		"broken x-death":         {map[string]any{"x-death": []any{"x", map[string]any{"queue": int64(7)}, nil}}, "7", dlq.Unexplained},
	} {
		l := r.store(delivered("orders.dlq", &letter.Delivery{Headers: c.headers, Body: []byte(name)}))
		if l.Queue != c.queue || l.Reason != c.reason {
			t.Errorf("%s: queue %q, reason %q", name, l.Queue, l.Reason)
		}
	}
}

func TestForeignLettersAreKeptAndLeftAlone(t *testing.T) {
	each(t, func(r *rig) {
		l := r.store(delivered("legacy.dead", &letter.Delivery{Headers: map[string]any{"n": int64(1)}, Body: []byte("x")}))
		j := r.judge(l.ID)
		if l.Queue != "" || l.Consumer != "" || j.Verdict != dlq.Unknown || j.Why == "" {
			r.Errorf("%+v, %+v", l, j)
		}
		c := all()
		c.AcceptUnknown, c.Note = true, note
		if run := r.redrive(c); run.Counts.Sent != 0 || run.Counts.Stayed[dlq.Unknown] != 1 {
			r.Errorf("a letter of which nobody knows where it died was sent: %+v", run.Counts)
		}
	})
}

func TestErrorsOfOneKindAreOneKind(t *testing.T) {
	r := newRig(t, databases[3], dlq.Config{})
	for i, reason := range []string{
		`claim orders/"k-1": item 4711 of 01J8ZQ7V5C is gone`, `claim orders/"k-22": item 9 of 01J8ZQ7V5D is gone`,
		"another thing: 7d444840-9dc0-11d1-b245-5ffdce74fad2", "another thing: 1d444840-0dc0-11d1-b245-5ffdce74fad9",
	} {
		r.store(r.died([]string{"k-1", "k-22", "k-3", "k-4"}[i], "x", map[string]any{letter.HeaderReason: reason}))
	}
	kinds, err := r.letters.Kinds(t.Context(), dlq.Filter{})
	r.must(err)
	if len(kinds) != 2 || kinds[0].Count != 2 || kinds[1].Count != 2 || kinds[0].Oldest.IsZero() {
		t.Fatalf("%+v", kinds)
	}
	for _, k := range kinds {
		if n := r.count(dlq.Filter{Kind: k.ID}); n != 2 || strings.ContainsAny(k.Shape, "0123456789") {
			t.Errorf("%+v has %d letters", k, n)
		}
	}
}

func TestFiltersChoose(t *testing.T) {
	eachDriver(t, func(r *rig) {
		a := r.store(r.died("a", "x", map[string]any{"tenant": int64(7), letter.HeaderReason: "no stock of 'it'"}))
		b := r.store(r.died("b", "x", map[string]any{"tenant": "8"}))
		r.process("b", "x")
		long := strings.Repeat("long", 100)
		c := r.store(r.died(long, "x"))
		for name, f := range map[string]struct {
			dlq.Filter
			want []int64
		}{
			"header":      {dlq.Filter{Headers: map[string]string{"tenant": "7"}}, []int64{a.ID}},
			"verdict":     {dlq.Filter{Verdicts: []dlq.Verdict{dlq.Processed}}, []int64{b.ID}},
			"error":       {dlq.Filter{Error: "of 'it'"}, []int64{a.ID}},
			"key":         {dlq.Filter{Key: "b"}, []int64{b.ID}},
			"hashed key":  {dlq.Filter{Key: long}, []int64{c.ID}},
			"stored key":  {dlq.Filter{Key: inbox.StoredKey(long)}, []int64{c.ID}},
			"ids":         {dlq.Filter{IDs: []int64{c.ID, a.ID}}, []int64{a.ID, c.ID}},
			"young":       {dlq.Filter{MaxAge: time.Hour}, []int64{a.ID, b.ID, c.ID}},
			"old":         {dlq.Filter{MinAge: time.Hour}, nil},
			"limit":       {dlq.Filter{Limit: 2}, []int64{a.ID, b.ID}},
			"queue":       {dlq.Filter{Queue: "payments"}, nil},
			"consumer":    {dlq.Filter{Consumer: queue, Reason: dlq.Failed, States: []dlq.State{dlq.Waiting}}, []int64{a.ID, b.ID, c.ID}},
			"no such run": {dlq.Filter{Run: "x"}, nil},
		} {
			var got []int64
			for l, err := range r.letters.Each(r.Context(), f.Filter, dlq.OldestFirst) {
				r.must(err)
				got = append(got, l.ID)
			}
			if !reflect.DeepEqual(got, f.want) {
				r.Errorf("%s: %v, want %v", name, got, f.want)
			}
			if n := r.count(f.Filter); n != int64(len(f.want)) {
				r.Errorf("%s: counted %d, want %d", name, n, len(f.want))
			}
		}
		newest, err := r.letters.List(r.Context(), dlq.Filter{Limit: 2}, dlq.NewestFirst, 0)
		r.must(err)
		if len(newest) != 2 || newest[0].ID != c.ID || newest[1].ID != b.ID {
			r.Errorf("newest first: %v", newest)
		}
		next, err := r.letters.List(r.Context(), dlq.Filter{Limit: 2}, dlq.NewestFirst, b.ID)
		r.must(err)
		if len(next) != 1 || next[0].ID != a.ID {
			r.Errorf("next page: %v", next)
		}
	})
}
