package inbox

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestFirstUsableHeaderOrMessageIDIsTheKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		m    keyMsg
		want string // "" for none
	}{
		"header before message id":       {keyMsg{headers: hdr{"event_id": "e1"}, id: "m1"}, "e1"},
		"no header":                      {keyMsg{id: "m1"}, "m1"},
		"empty header":                   {keyMsg{headers: hdr{"event_id": ""}, id: "m1"}, "m1"},
		"header of blanks":               {keyMsg{headers: hdr{"event_id": " \t "}, id: "m1"}, "m1"},
		"nil header":                     {keyMsg{headers: hdr{"event_id": nil}, id: "m1"}, "m1"},
		"table":                          {keyMsg{headers: hdr{"event_id": map[string]any{"a": "b"}}, id: "m1"}, "m1"},
		"array":                          {keyMsg{headers: hdr{"event_id": []any{"a"}}, id: "m1"}, "m1"},
		"empty bytes":                    {keyMsg{headers: hdr{"event_id": []byte{}}, id: "m1"}, "m1"},
		"blanks around stay":             {keyMsg{headers: hdr{"event_id": " e1 "}}, " e1 "},
		"a line break is no blank":       {keyMsg{headers: hdr{"event_id": "\n"}, id: "m1"}, "\n"},
		"no-break space is no blank":     {keyMsg{id: "\u00a0"}, "\u00a0"},
		"case stays":                     {keyMsg{headers: hdr{"event_id": "Evt-ABC"}}, "Evt-ABC"},
		"another spelling of the header": {keyMsg{headers: hdr{"Event_Id": "e1"}}, ""},
		"nothing":                        {keyMsg{}, ""},
		"blank message id":               {keyMsg{id: "\t"}, ""},
	} {
		got, err := DefaultKey.Of(c.m)
		if got != c.want || (err == nil) != (c.want != "") || err != nil && !errors.Is(err, ErrNoKey) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}

func TestHeaderTextFormsAreFixed(t *testing.T) {
	t.Parallel()
	jakarta := time.FixedZone("WIB", 7*3600)
	for _, c := range []struct {
		v    any
		want string
	}{
		{"a\x00\xff", "a\x00\xff"}, {[]byte("a\x00\xff"), "a\x00\xff"},
		{true, "true"}, {false, "false"},
		{int(-7), "-7"}, {int8(-128), "-128"}, {int16(7), "7"}, {int32(7), "7"}, {int64(math.MinInt64), "-9223372036854775808"},
		{uint(7), "7"}, {byte(200), "200"}, {uint16(7), "7"}, {uint32(7), "7"}, {uint64(math.MaxUint64), "18446744073709551615"},
		{float32(0.1), "0.1"}, {0.1, "0.1"}, {42.0, "42"}, {1e21, "1e+21"}, {math.Copysign(0, -1), "-0"},
		{time.Unix(1700000000, 0).In(jakarta), "2023-11-14T22:13:20Z"},
		{time.Unix(1700000000, 5e8), "2023-11-14T22:13:20.5Z"},
		{time.Unix(-62167219200, 0), "0000-01-01T00:00:00Z"},
		{time.Unix(-62167219201, 0), "@-62167219201.000000000"},
		{time.Unix(253402300799, 0), "9999-12-31T23:59:59Z"},
		{time.Unix(253402300800, 1), "@253402300800.000000001"},
		{time.Unix(math.MaxInt64, 0), "@9223372036854775807.000000000"},
		{time.Unix(math.MinInt64, 0), "@-9223372036854775808.000000000"},
	} {
		if got, ok := HeaderText(c.v); !ok || got != c.want {
			t.Errorf("HeaderText(%T %v) = %q, %t, want %q", c.v, c.v, got, ok, c.want)
		}
	}
	for _, v := range []any{nil, []any{}, map[string]any{}, struct{}{}, math.NaN(), float32(math.Inf(1)), math.Inf(-1), new(string)} {
		if got, ok := HeaderText(v); ok {
			t.Errorf("HeaderText(%T) = %q, want none", v, got)
		}
	}
}

func TestReasonsSayWhyEachSourceFailedAndShowNoValue(t *testing.T) {
	t.Parallel()
	k, err := ParseKey("header:event_id, header:old, message-id, json:/id, cloudevents, join(header:secret, header:gone)")
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.Of(keyMsg{headers: hdr{"event_id": "  ", "old": []any{"hunter2"}, "secret": "hunter2"}, body: `{"id":["hunter2"]}`})
	want := "header:event_id is blank; header:old holds a []interface {}, which has no text form; message-id is absent; json:/id: the value is an array; " +
		"cloudevents: no source and id in headers that begin with cloudEvents:, cloudEvents_, ce-, ce_; join: header:gone is absent: " + ErrNoKey.Error()
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Error("a value is shown")
	}
}

// One type, two values: never one text.
func FuzzHeaderText(f *testing.F) {
	f.Add(int64(0), int64(1), 0.1, 0.30000000000000004)
	f.Add(int64(math.MaxInt64), int64(math.MinInt64), 0.0, math.Copysign(0, -1))
	f.Add(int64(253402300799), int64(253402300800), 1e21, 1e20)
	f.Add(int64(-62167219200), int64(-62167219201), 9007199254740992.0, 9007199254740994.0)
	f.Fuzz(func(t *testing.T, a, b int64, x, y float64) {
		pairs := []struct {
			a, b any
			same bool
		}{
			{a, b, a == b},
			{int32(a), int32(b), int32(a) == int32(b)},
			{time.Unix(a, 0), time.Unix(b, 0), a == b},
			{time.Unix(a, 0).UTC(), time.Unix(b, 1), false},
			{x, y, math.Float64bits(x) == math.Float64bits(y)},
			{float32(x), float32(y), math.Float32bits(float32(x)) == math.Float32bits(float32(y))},
		}
		for _, p := range pairs {
			s, ok1 := HeaderText(p.a)
			u, ok2 := HeaderText(p.b)
			if ok1 && ok2 && (s == u) != p.same {
				t.Errorf("%T %v and %v: texts %q and %q", p.a, p.a, p.b, s, u)
			}
		}
	})
}
