package inbox

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestKeyFuncPassesOnWhatItsFuncDecides(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		v    string
		err  error
		want string
		is   error
	}{
		"key":            {v: "k ", want: "k "},
		"skip":           {err: fmt.Errorf("heartbeat: %w", Skip), is: Skip},
		"other error":    {err: boom, is: boom},
		"no key":         {err: fmt.Errorf("no order: %w", ErrNoKey), want: "m"},
		"blank":          {v: "\t", want: "m"},
		"key with error": {v: "k", err: boom, is: boom},
	} {
		k := FirstOf(KeyFunc("order", func(Message) (string, error) { return c.v, c.err }), messageIDKey{})
		got, err := k.Of(keyMsg{id: "m"})
		if got != c.want || !errors.Is(err, c.is) {
			t.Errorf("%s: %q, %v, want %q, %v", name, got, err, c.want, c.is)
		}
	}
}

func TestKeyFuncIsRegisteredUnderItsName(t *testing.T) {
	t.Parallel()
	f := func(Message) (string, error) { return "", nil }
	for name, want := range map[string]string{"order": "func:order", "new order": `func:"new order"`} {
		if got := KeyFunc(name, f).String(); got != want {
			t.Errorf("KeyFunc(%q) is %q, want %q", name, got, want)
		}
	}
	if got, want := FirstOf(nil, DefaultKey, KeyFunc("order", f)).String(), "header:event_id, message-id, func:order"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFaultsOfKeyFuncsAreFoundAtStart(t *testing.T) {
	t.Parallel()
	f := func(Message) (string, error) { return "k", nil }
	bad := FirstOf(DefaultKey, KeyFunc("", f), KeyFunc("order", nil))
	err := CheckKey(bad)
	if err == nil || !strings.Contains(err.Error(), "name is empty") || !strings.Contains(err.Error(), "func is nil") {
		t.Errorf("CheckKey: %v, want both faults", err)
	}
	if _, err := bad.Of(keyMsg{}); ClassOf(err) != ClassConfig {
		t.Errorf("Of: %v, want class Config", err)
	}
	for _, k := range []Key{nil, DefaultKey, KeyFunc("order", f)} {
		if err := CheckKey(k); err != nil {
			t.Errorf("CheckKey(%v): %v", k, err)
		}
	}
}

func TestKeysCanBeCompared(t *testing.T) {
	t.Parallel()
	other := mustParse(t, "join(header:a, json:/b), json:/c, cloudevents")
	same := other
	if other == DefaultKey || other != same {
		t.Error("comparison is wrong")
	}
	if FirstOf() != nil || FirstOf(nil, messageIDKey{}) != Key(messageIDKey{}) {
		t.Error("nil Keys are not left out")
	}
}
