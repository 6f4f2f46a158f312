package letter_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sekali-mq/sekali/internal/letter"
)

func TestWhatTheBrokerOwnsIsNotSentAgain(t *testing.T) {
	at := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	d := &letter.Delivery{
		Queue: "orders",
		Properties: letter.Properties{
			MessageID: "m1", UserID: "alice", Expiration: "60000", ContentType: "text/plain", Priority: 3, Timestamp: at,
		},
		Headers: map[string]any{
			"x-death": []any{
				map[string]any{"reason": "expired", "queue": "orders.retry.5s", "count": int64(2), "time": at, "routing-keys": []any{"k"}},
				map[string]any{"reason": "rejected", "queue": "odd \"name\"", "count": int64(1), "time": at},
				"not a table",
			},
			"x-first-death-queue": "orders.retry.5s", "x-last-death-reason": "expired", "x-delivery-count": int64(4),
			"CC": []any{"copy"}, "BCC": []any{"blind"},
			"x-own": int64(1), "list": []any{int32(1), nil}, "table": map[string]any{"a": true},
			"sekali-attempt": "2", "sekali-number": int64(7), "sekali-gone": "x", "sekali-list": []any{"kept"},
		},
		Body: []byte("body"),
	}
	before := maps.Clone(d.Headers)
	props, headers := letter.Outgoing(d, map[string]string{"sekali-attempt": "3", "sekali-number": "7", "sekali-new": "n", "other": "metadata"})

	want := map[string]any{
		"x-own": int64(1), "list": []any{int32(1), nil}, "table": map[string]any{"a": true},
		"sekali-attempt": "3", "sekali-number": int64(7), "sekali-new": "n", "sekali-list": []any{"kept"},
		letter.HeaderUserID: "alice", letter.HeaderExpiration: "60000",
		letter.HeaderHistory: "2026-07-01T10:00:00Z expired \"orders.retry.5s\" 2\n2026-07-01T10:00:00Z rejected \"odd \\\"name\\\"\" 1\n",
	}
	if !reflect.DeepEqual(headers, want) {
		t.Errorf("headers:\n got %v\nwant %v", headers, want)
	}
	wantProps := d.Properties
	wantProps.UserID, wantProps.Expiration = "", ""
	if props != wantProps {
		t.Errorf("properties: got %+v, want %+v", props, wantProps)
	}
	if !reflect.DeepEqual(d.Headers, before) || d.Properties.UserID != "alice" {
		t.Error("the delivery was changed")
	}
}

func TestHistoryGrowsAtTheFrontAndIsBounded(t *testing.T) {
	old := strings.Repeat("2026-01-01T00:00:00Z expired \"q\" 1\n", 200)
	d := &letter.Delivery{Headers: map[string]any{
		"x-death":            []any{map[string]any{"reason": "newest", "queue": "q", "count": int64(1), "time": time.Time{}}},
		letter.HeaderHistory: old,
	}}
	_, headers := letter.Outgoing(d, map[string]string{letter.HeaderHistory: old})
	got, _ := headers[letter.HeaderHistory].(string)
	if !strings.Contains(strings.SplitN(got, "\n", 2)[0], "newest") || len(got) > letter.MaxHistory || !strings.HasSuffix(got, "\n") {
		t.Errorf("history of %d bytes begins %.60q", len(got), got)
	}
}

func TestReasonIsBoundedValidText(t *testing.T) {
	for name, text := range map[string]string{
		"short": "no stock", "empty": "", "long": strings.Repeat("x", 200_000), "runes": strings.Repeat("é", 4000),
		"broken": "bad \xff\xfe bytes", "nul": "a\x00b", "broken at the cut": strings.Repeat("\xff", 5000),
	} {
		got := letter.Reason(errors.New(text))
		if len(got) > letter.MaxReason || !utf8.ValidString(got) || strings.Contains(got, "\x00") {
			t.Errorf("%s: %d bytes, valid %v", name, len(got), utf8.ValidString(got))
		}
	}
	if got := letter.Reason(errors.New("no stock")); got != "no stock" {
		t.Errorf("got %q", got)
	}
	if letter.Reason(nil) != "" {
		t.Error("nil must have no reason")
	}
}

func TestOneTextForEachType(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
		ok    bool
	}{
		{"s", "s", true}, {[]byte{0xff}, "\xff", true}, {true, "true", true},
		{int8(-8), "-8", true}, {uint8(255), "255", true}, {int16(-16), "-16", true}, {uint16(65535), "65535", true},
		{int32(-32), "-32", true}, {uint32(4294967295), "4294967295", true}, {int64(1) << 62, "4611686018427387904", true},
		{float32(0.1), "0.1", true}, {0.1, "0.1", true},
		{time.Unix(1782900000, 0), "2026-07-01T10:00:00Z", true},
		{letter.Decimal{Scale: 2, Value: 12345}, "123.45", true}, {letter.Decimal{Scale: 3, Value: -5}, "-0.005", true}, {letter.Decimal{Value: 7}, "7", true},
		{nil, "", false}, {[]any{1}, "", false}, {map[string]any{}, "", false},
	} {
		if got, ok := letter.Text(c.value); got != c.want || ok != c.ok {
			t.Errorf("%T %v: got %q, %v", c.value, c.value, got, ok)
		}
	}
}

func TestOriginIsWhereItFirstCameFrom(t *testing.T) {
	d := &letter.Delivery{Queue: "q", Exchange: "e", RoutingKey: "k"}
	if q, e, k := d.Origin(); q != "q" || e != "e" || k != "k" {
		t.Errorf("first delivery: %q %q %q", q, e, k)
	}
	d = &letter.Delivery{Queue: "q", RoutingKey: "q", Headers: map[string]any{
		letter.HeaderQueue: "q", letter.HeaderExchange: "e", letter.HeaderRoutingKey: "k",
	}}
	if q, e, k := d.Origin(); q != "q" || e != "e" || k != "k" {
		t.Errorf("after a retry: %q %q %q", q, e, k)
	}
}

func TestFactsReadBackAndALetterBeginsAnew(t *testing.T) {
	at := time.Date(2026, 7, 1, 10, 0, 0, 500, time.UTC)
	h := map[string]string{letter.HeaderReason: "old", letter.HeaderLetterKey: "old", "colour": "red"}
	f := letter.Facts{Attempts: 3, Waits: 2, FirstFailure: at, Queue: "q", Exchange: "", RoutingKey: "k", Consumer: "c", Key: "key"}
	f.Write(h)
	if b := letter.Before(h); b.Redriven || b.Attempts != 3 || b.Waits != 2 || !b.FirstFailure.Equal(at) {
		t.Errorf("read back %+v", b)
	}
	if h[letter.HeaderReason] != "" || h[letter.HeaderLetterKey] != "" || h["colour"] != "red" {
		t.Errorf("a retry bears %v", h)
	}
	f.Reason, f.Fingerprint = errors.New("why"), []byte{1, 0xab}
	f.Write(h)
	if h[letter.HeaderReason] != "why" || h[letter.HeaderFingerprint] != "01ab" || h[letter.HeaderLetterKey] != "key" || h[letter.HeaderConsumer] != "c" {
		t.Errorf("a letter bears %v", h)
	}
	if b := letter.Before(h); b.Attempts != 0 || b.Waits != 0 || !b.FirstFailure.IsZero() {
		t.Errorf("a letter that was put back begins with %+v", b)
	}
}

// Anybody can write headers: counts that no consumer wrote must do no harm.
func TestForgedCountsAreClamped(t *testing.T) {
	for _, text := range []string{"9223372036854775807", "-1", "-9223372036854775808", "99999999999999999999", "x", ""} {
		b := letter.Before(map[string]string{letter.HeaderAttempt: text, letter.HeaderWaits: text})
		if b.Attempts < 0 || b.Attempts > 1<<20 || b.Waits != b.Attempts {
			t.Errorf("%q read as %+v", text, b)
		}
	}
}

// A redrive marks and repeats by the fate: what is not known must stay unknown.
func TestTheFateOfAPublishIsNeverGuessed(t *testing.T) {
	unknown, unsent := letter.FateError(letter.FateUnknown, "unknown"), letter.FateError(letter.FateUnsent, "not sent")
	refused, closed := letter.FateError(letter.FateRefused, "refused"), letter.FateError(letter.FateClosed, "closed")
	for want, errs := range map[letter.Fate][]error{
		letter.FateUnknown: {errors.New("anything"), unknown, fmt.Errorf("a: %w: %w", unknown, closed), fmt.Errorf("%w: %w", unsent, unknown), closed, nil},
		letter.FateUnsent:  {unsent, fmt.Errorf("b: %w", fmt.Errorf("%w: %w", unsent, errors.New("dial"))), errors.Join(errors.New("x"), unsent)},
		letter.FateRefused: {refused, fmt.Errorf("c: %w", refused)},
		letter.FateClosed:  {fmt.Errorf("publisher: %w: %w", unsent, closed)},
	} {
		for _, err := range errs {
			if got := letter.FateOf(err); got != want {
				t.Errorf("%v: %d, want %d", err, got, want)
			}
		}
	}
}
