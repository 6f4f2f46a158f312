package inbox

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestJSONPointerGivesStringsDecodedAndNumbersAsWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pointer, body, want string }{
		{"/order/id", `{"order":{"id":"o-17"}}`, "o-17"},
		{"/order/id", " {\n\"x\" : [1,{\"id\":2}] , \"order\" : { \"id\" : 9007199254740993 } } ", "9007199254740993"},
		{"/order/id", `{"order":{"id":9007199254740992}}`, "9007199254740992"},
		{"/n", `{"n":1}`, "1"}, {"/n", `{"n":1.0}`, "1.0"}, {"/n", `{"n":1e0}`, "1e0"}, {"/n", `{"n":-0}`, "-0"}, {"/n", `{"n":"1"}`, "1"},
		{"/n", `{"n":123456789012345678901234567890.00}`, "123456789012345678901234567890.00"},
		{"/s", `{"s":"\u0041\n\"\\"}`, "A\n\"\\"},
		{"/s", `{"s":"\ud83d\ude00"}`, "😀"}, {"/s", `{"s":"😀"}`, "😀"},
		{"/s", `{"s":"\ufffd"}`, "\ufffd"}, {"/s", `{"s":"a\u0000b"}`, "a\x00b"}, {"/s", `{"s":" k "}`, " k "},
		{"/s", `{"s":"\\ud83d"}`, `\ud83d`},
		{"/0", `["a","b"]`, "a"}, {"/1", `[ [1,2] , "b" ]`, "b"}, {"/a/10", `{"a":[0,1,2,3,4,5,6,7,8,9,"x"]}`, "x"},
		{"/0", `{"0":"member"}`, "member"}, {"/01", `{"01":"member"}`, "member"}, {"/-", `{"-":"member"}`, "member"},
		{"/", `{"":"empty name"}`, "empty name"}, {"/a//b", `{"a":{"":{"b":"x"}}}`, "x"},
		{"/a~1b", `{"a/b":"x"}`, "x"}, {"/a~0b", `{"a~b":"x"}`, "x"}, {"/~01", `{"~1":"x"}`, "x"},
		{`/k"\`, `{"k\"\\":"x"}`, "x"}, {"/é", `{"\u00e9":"x"}`, "x"},
		{"/a", `{"A":"upper","a":"lower"}`, "lower"},
		{"/a/b", `{"b":{"a":1},"a":{"c":"}]\"","b":"x"}}`, "x"},
		{"/id", `{"other":1,"other":2,"id":"twice elsewhere is none of our business"}`, "twice elsewhere is none of our business"},
		{"/id", "{\"latin\":\"caf\xe9\",\"id\":\"x\"}", "x"},
	} {
		k := mustParse(t, "json:"+quoteName(c.pointer))
		if got, err := k.Of(keyMsg{body: c.body}); err != nil || got != c.want {
			t.Errorf("%s of %s: %q, %v, want %q", k, c.body, got, err, c.want)
		}
	}
}

func TestJSONThatCannotBeToldApartGivesNoKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pointer, body, why string }{
		{"/id", ``, "not JSON"}, {"/id", `id=7`, "not JSON"}, {"/id", `{"id":"7"`, "not JSON"}, {"/id", `{"id":"7"} {"id":"8"}`, "not JSON"},
		{"/id", "\ufeff" + `{"id":"7"}`, "not JSON"}, {"/id", `{"id":07}`, "not JSON"}, {"/id", `{'id':7}`, "not JSON"},
		{"/id", strings.Repeat("[", 20000), "not JSON"},
		{"/id", `{}`, "no such member"}, {"/id", `{"ID":"7"}`, "no such member"}, {"/id", `{"x":{"id":"7"}}`, "no such member"},
		{"/id", `"id"`, "leads through"}, {"/id/x", `{"id":"7"}`, "leads through"}, {"/id/x", `{"id":null}`, "leads through"},
		{"/id", `{"id":null}`, "null"}, {"/id", `{"id":true}`, "boolean"}, {"/id", `{"id":false}`, "boolean"},
		{"/id", `{"id":{"v":"7"}}`, "object"}, {"/id", `{"id":["7"]}`, "array"},
		{"/id", `{"id":""}`, "blank"}, {"/id", `{"id":"\t \u0020"}`, "blank"},
		{"/id", `{"id":"7","id":"8"}`, "twice"}, {"/id", `{"id":"7","\u0069d":"7"}`, "twice"}, {"/a/id", `{"a":{"id":"7"},"a":{"id":"8"}}`, "twice"},
		{"/id", "{\"id\":\"a\xff\"}", "UTF-8"}, {"/id", `{"id":"\ud800"}`, "surrogate"}, {"/id", `{"id":"\udc00\ud800"}`, "surrogate"},
		{"/id", `{"id":"\ud800x"}`, "surrogate"}, {"/id", `{"id":"\ud800\u0041"}`, "surrogate"}, {"/id", `{"id":"\ud800\\udc00"}`, "surrogate"},
		{"/\ufffd", "{\"\xff\":\"7\"}", "no such member"}, {"/\ufffd", `{"\ud800":"7"}`, "no such member"},
		{"/0", `[]`, "no such element"}, {"/1", `["a"]`, "no such element"}, {"/-", `["a"]`, "names a member of an array"},
		{"/00", `["a"]`, "names a member"}, {"/-0", `["a"]`, "names a member"}, {"/+0", `["a"]`, "names a member"}, {"/x", `["a"]`, "names a member"},
		{"/-1", `["a"]`, "no such element"}, {"/99999999999999999999", `["a"]`, "names a member"},
	} {
		k := mustParse(t, "json:"+quoteName(c.pointer))
		got, err := k.Of(keyMsg{body: c.body})
		if !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s of %.60q: %q, %v, want ErrNoKey and %q", k, c.body, got, err, c.why)
		}
		fallback := FirstOf(k, messageIDKey{})
		if got, err := fallback.Of(keyMsg{body: c.body, id: "m"}); got != "m" || err != nil {
			t.Errorf("%s of %.60q: %q, %v, want the message id", fallback, c.body, got, err)
		}
	}
}

func mustParse(t *testing.T, rule string) Key {
	t.Helper()
	k, err := ParseKey(rule)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Whatever the body, a key is what an independent reader finds at the pointer,
// and for that reader nothing was replaced on the way.
func FuzzJSONKey(f *testing.F) {
	for _, s := range []string{
		`{"a":{"id":"x"}}`, `{"a":{"id":9007199254740993}}`, `{"a":[],"a":{"id":1}}`, `{"a":{"id":"\ud800"}}`, "{\"a\":{\"id\":\"\xff\"}}",
		` { "x":["}",{"a":1}], "a" : { "\u0069d" : "\ud83d\ude00\\" } }`, `{"a":{"id":"\"]}"},"b":[[{}],-1.5e+3]}`, `[]`, `{"a":{"id":" "}}`,
		`{"a":{"id":"\ufffd"}}`, `{"\ud800":1,"a":{"id":2}}`, "", `"`, `{"a":{"":0,"id":"k"}}`,
	} {
		f.Add(s)
	}
	k := &jsonKey{pointer: "/a/id", path: []string{"a", "id"}}
	f.Fuzz(func(t *testing.T, body string) {
		got, err := k.Of(keyMsg{body: body})
		if err != nil {
			if !errors.Is(err, ErrNoKey) {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		if again, err := k.Of(keyMsg{body: body}); err != nil || again != got {
			t.Errorf("%q: %q, then %q, %v", body, got, again, err)
		}
		if !utf8.ValidString(got) || BlankKey(got) {
			t.Errorf("%q: key %q", body, got)
		}
		var doc map[string]any
		dec := json.NewDecoder(strings.NewReader(body))
		dec.UseNumber()
		if err := dec.Decode(&doc); err != nil {
			t.Fatalf("%q gave %q, another reader says %v", body, got, err)
		}
		a, _ := doc["a"].(map[string]any)
		switch v := a["id"].(type) {
		case string:
			if v != got {
				t.Errorf("%q: %q, another reader has %q", body, got, v)
			}
		case json.Number:
			if v.String() != got {
				t.Errorf("%q: %q, another reader has %q", body, got, v)
			}
		default:
			t.Errorf("%q: %q, another reader has %T", body, got, v)
		}
	})
}

// Two strings, two keys, whatever bytes they have; and the same for numbers.
func FuzzJSONString(f *testing.F) {
	f.Add("a", "b")
	f.Add("\xff", "\ufffd")
	f.Add(`\ud800`, "\ufffd")
	f.Add(`\u0041`, "A")
	f.Fuzz(func(t *testing.T, a, b string) {
		k := &jsonKey{pointer: "/id", path: []string{"id"}}
		raw := func(s string) (string, bool) { // the bytes as they are, between quotes
			v, err := k.Of(keyMsg{body: `{"id":"` + s + `"}`})
			return v, err == nil
		}
		va, oka := raw(a)
		vb, okb := raw(b)
		if oka && okb && a != b && va == vb && !strings.Contains(a+b, `\`) {
			t.Errorf("%q and %q both give %q", a, b, va)
		}
		// A producer that encodes as it should gets its own string back.
		if utf8.ValidString(a) && !BlankKey(a) {
			enc, err := json.Marshal(map[string]string{"id": a})
			if err != nil {
				t.Fatal(err)
			}
			if v, err := k.Of(keyMsg{body: string(enc)}); err != nil || v != a {
				t.Errorf("%s: %q, %v, want %q", enc, v, err, a)
			}
		}
	})
}
