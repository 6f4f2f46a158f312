package inbox

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseKeyGivesTheCanonicalRule(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		"message-id":                                          "message-id",
		"header:event_id":                                     "header:event_id",
		"header:event_id,message-id":                          "header:event_id, message-id",
		" \t header:event_id\r\n , message-id ":               "header:event_id, message-id",
		"cloudevents,json:/order/id":                          "cloudevents, json:/order/id",
		"json:/":                                              "json:/",
		"json:/a~1b/c~0d/0":                                   "json:/a~1b/c~0d/0",
		`json:"/größe"`:                                       `json:"/größe"`,
		"header:cloudEvents:id":                               "header:cloudEvents:id",
		`header:"event_id"`:                                   "header:event_id",
		`header:"order id, (old)"`:                            `header:"order id, (old)"`,
		`header:"a\"b\\c"`:                                    `header:"a\"b\\c"`,
		`header:"\x09\xFF\x41"`:                               `header:"\x09\xffA"`,
		`header:" "`:                                          `header:" "`,
		"join(header:tenant,json:/id)":                        "join(header:tenant, json:/id)",
		" join ( message-id , cloudevents ) ":                 "",
		"join( message-id , cloudevents ) ":                   "join(message-id, cloudevents)",
		"join(header:t, json:/i), join(header:t, message-id)": "join(header:t, json:/i), join(header:t, message-id)",
		"join(header:stream, header:x-stream-offset)":         "join(header:stream, header:x-stream-offset)",
	} {
		k, err := ParseKey(rule)
		if want == "" {
			if err == nil {
				t.Errorf("ParseKey(%q) = %q, want an error", rule, k)
			}
			continue
		}
		if err != nil {
			t.Errorf("ParseKey(%q): %v", rule, err)
			continue
		}
		if got := k.String(); got != want {
			t.Errorf("ParseKey(%q) = %q, want %q", rule, got, want)
		}
		again, err := ParseKey(k.String())
		if err != nil || !reflect.DeepEqual(again, k) {
			t.Errorf("ParseKey(%q) = %v, %v: not the key it came from", k, again, err)
		}
	}
}

func TestParseKeyPointsAtTheFault(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string][2]string{
		"":                            {"position 1: ", "a source is missing"},
		"  ":                          {"position 3: ", "a source is missing"},
		"message-id,":                 {"position 12: ", "a source is missing"},
		"message-id,,header:a":        {"position 12: ", "a source is missing"},
		"event_id":                    {"position 1: ", "a header is written header:event_id"},
		"message-id, Header:a":        {"position 13: ", `unknown source "Header"`},
		"delivery-tag":                {"position 1: ", "header:<name>, message-id, json:<pointer>"},
		"header":                      {"position 7: ", "needs a colon"},
		"header :a":                   {"position 7: ", "needs a colon"},
		"header:":                     {"position 8: ", "header: has no name"},
		"header: a":                   {"position 8: ", "header: has no name"},
		`header:""`:                   {"position 8: ", "header: has no name"},
		"header:, message-id":         {"position 8: ", "header: has no name"},
		"header:order id":             {"position 14: ", `unexpected "id" after header:order`},
		"header:naïve":                {"position 10: ", "double quotes"},
		"header:a\x00":                {"position 9: ", "unexpected"},
		`header:a\b`:                  {"position 9: ", "double quotes"},
		`header:"abc`:                 {"position 8: ", "does not end"},
		`header:"a\nb"`:               {"position 10: ", "unknown escape"},
		`header:"a\x4"`:               {"position 10: ", "unknown escape"},
		"header:\"a\tb\"":             {"position 10: ", `write it as \xHH`},
		"header:\"a\xffb\"":           {"position 10: ", `write it as \xHH`},
		`header:"a"b`:                 {"position 11: ", `unexpected "b"`},
		"message-id:a":                {"position 11: ", "takes no name"},
		"cloudevents(a)":              {"position 12: ", "takes no name"},
		"json:":                       {"position 6: ", "json: has no name"},
		"json:order/id":               {"position 6: ", "must begin with a slash"},
		"message-id, json:/a~2":       {"position 18: ", "~ without 0 or 1"},
		"json:/a~":                    {"position 6: ", "~ without 0 or 1"},
		`json:"/\xff"`:                {"position 6: ", "not UTF-8"},
		"join":                        {"position 5: ", "in parentheses"},
		"join()":                      {"position 6: ", "a source is missing"},
		"join(message-id)":            {"position 1: ", "two or more"},
		"join(message-id, header:a":   {"position 26: ", "close it"},
		"join(message-id, header:a))": {"position 27: ", "no join is open"},
		"header:a)":                   {"position 9: ", "no join is open"},
		"join(header:a, join(header:b, message-id))": {"position 16: ", "list all parts in one"},
		"message-id, func:order":                     {"position 13: ", "KeyFunc"},
		"header:x-delivery-count":                    {"position 8: ", "written by the broker"},
		"header:X-Death":                             {"position 8: ", "written by the broker"},
		"header:x-first-death-queue":                 {"position 8: ", "written by the broker"},
		"header:x-stream-offset":                     {"position 8: ", "together with its stream"},
		"header:sekali-key":                          {"position 8: ", "belongs to Sekali"},
	} {
		k, err := ParseKey(rule)
		if err == nil {
			t.Errorf("ParseKey(%q) = %q, want an error", rule, k)
			continue
		}
		if got := err.Error(); !strings.Contains(got, want[0]) || !strings.Contains(got, want[1]) {
			t.Errorf("ParseKey(%q): %v\nwant %q and %q in it", rule, err, want[0], want[1])
		}
	}
}

func TestParseKeyTellsFuncsFromFaults(t *testing.T) {
	t.Parallel()
	f := KeyFunc("order (new)", func(Message) (string, error) { return "k", nil })
	if _, err := ParseKey(FirstOf(DefaultKey, f).String()); !errors.Is(err, ErrFuncKey) {
		t.Errorf("ParseKey of a rule with a func: %v, want ErrFuncKey", err)
	}
	if _, err := ParseKey("header:"); errors.Is(err, ErrFuncKey) {
		t.Errorf("ParseKey of a faulty rule: %v, want another error than ErrFuncKey", err)
	}
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{
		"", "header:event_id, message-id", "json:/order/id", "cloudevents", "join(header:a, json:/b~0/0)",
		`header:"a\"\\\x00\xff, (é)"`, `json:"/ü"`, "join(message-id, cloudevents), header:x", "func:a", "header:\"\xf0", "join(,)",
		`header:"\xc3\xa9"`, `json:"/\xc3\xa9"`, "header:\"\u0080\"", `header:"\x7f"`, "header:é", "header:\xc3",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, rule string) {
		k, err := ParseKey(rule)
		if err != nil {
			if !strings.Contains(err.Error(), "position ") {
				t.Errorf("ParseKey(%q): %v: points nowhere", rule, err)
			}
			return
		}
		canon := k.String()
		if !utf8.ValidString(canon) || strings.ContainsFunc(canon, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("rule %q cannot be stored as text", canon)
		}
		again, err := ParseKey(canon)
		if err != nil {
			t.Fatalf("ParseKey(%q) from %q: %v", canon, rule, err)
		}
		if !reflect.DeepEqual(again, k) || again.String() != canon {
			t.Errorf("rule %q became %q, which became %q", rule, canon, again)
		}
	})
}
