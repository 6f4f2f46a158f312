package inbox

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestDifferentPartsMakeDifferentKeys(t *testing.T) {
	t.Parallel()
	seen := map[string][]string{}
	for _, parts := range [][]string{
		{"aa", "b"}, {"a", "ab"}, {"aab"}, {"a:b", "c"}, {"a", "b:c"}, {"a|b", "c"}, {"a", "b|c"}, {"a", "b", "c"}, {"a|b|c"},
		{"a~1b", "c"}, {"a~", "1b", "c"}, {"a~|", "b"}, {"a", "~|b"}, {"a~0", "b"}, {"a~", "b"}, {"a~01", "b"}, {"", ""}, {""}, {"", "", ""}, {"~"}, {"|"},
		{"a", "b "}, {"a ", "b"}, {"A", "b"}, {"a", "B"}, {"\xff", "a"}, {"\ufffd", "a"},
	} {
		k := FrameKey(parts[0], parts[1:]...)
		if other, ok := seen[k]; ok {
			t.Errorf("%q and %q both make %q", parts, other, k)
		}
		seen[k] = parts
	}
}

func TestJoinNeedsAllItsParts(t *testing.T) {
	t.Parallel()
	k := mustParse(t, "join(header:tenant, json:/id), message-id")
	for _, c := range []struct {
		m    keyMsg
		want string
	}{
		{keyMsg{headers: hdr{"tenant": "acme"}, body: `{"id":17}`, id: "m"}, "acme|17"},
		{keyMsg{headers: hdr{"tenant": int32(5)}, body: `{"id":"a|b"}`, id: "m"}, "5|a~1b"},
		{keyMsg{headers: hdr{"tenant": " "}, body: `{"id":17}`, id: "m"}, "m"},
		{keyMsg{headers: hdr{"tenant": "acme"}, body: `{"id":null}`, id: "m"}, "m"},
		{keyMsg{headers: hdr{"tenant": "acme"}, body: `{}`}, ""},
	} {
		got, err := k.Of(c.m)
		if got != c.want || (c.want == "") != errors.Is(err, ErrNoKey) {
			t.Errorf("%+v: %q, %v, want %q", c.m, got, err, c.want)
		}
	}
}

// unframe reads back what FrameKey wrote: if that is always possible, no two
// lists of parts share a key.
func unframe(key string) []string {
	parts := strings.Split(key, "|")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(p, "~1", "|"), "~0", "~")
	}
	return parts
}

func FuzzJoin(f *testing.F) {
	f.Add("aa", "b", "a", "ab")
	f.Add("a|b", "c", "a", "b|c")
	f.Add("a~", "1", "a~1", "")
	f.Add("~01", "|", "~|", "~1")
	f.Add("\xff", "\x00", "\ufffd", "\x00")
	f.Add("sha256:", "x", "sha256", ":x")
	f.Add(strings.Repeat("a", 120), strings.Repeat("b", 120), strings.Repeat("a", 121), strings.Repeat("b", 119))
	k, err := ParseKey("join(header:x, header:y)")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		for _, parts := range [][]string{{a}, {a, b}, {a, b, c}, {a, b, c, d}} {
			if got := unframe(FrameKey(parts[0], parts[1:]...)); !slices.Equal(got, parts) {
				t.Errorf("%q came back as %q", parts, got)
			}
		}
		one, err1 := k.Of(keyMsg{headers: hdr{"x": a, "y": b}})
		two, err2 := k.Of(keyMsg{headers: hdr{"x": []byte(c), "y": []byte(d)}})
		if (err1 != nil) != (BlankKey(a) || BlankKey(b)) || err1 != nil && !errors.Is(err1, ErrNoKey) {
			t.Errorf("%q and %q: %q, %v", a, b, one, err1)
		}
		if err1 != nil || err2 != nil {
			return
		}
		if same := a == c && b == d; (StoredKey(one) == StoredKey(two)) != same {
			t.Errorf("(%q, %q) and (%q, %q) are stored as %q and %q", a, b, c, d, StoredKey(one), StoredKey(two))
		}
	})
}
