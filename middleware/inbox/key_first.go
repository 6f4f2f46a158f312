package inbox

import (
	"errors"
	"fmt"
	"strings"
)

// DefaultKey is the rule of a consumer that gives none: "header:event_id,
// message-id". The name event_id can be carried by every protocol and by JMS.
// It trusts the producers to agree on ids; where two of them may use the same
// id for different things, choose cloudevents or a join.
var DefaultKey = FirstOf(headerKey{name: "event_id"}, messageIDKey{})

// FirstOf returns a Key that asks the given ones in order and takes the first
// key. It is how a func joins a rule, FirstOf(KeyFunc("order", f), DefaultKey);
// between built-in keys a comma in ParseKey says the same.
//
// A Key that returns an error that wraps ErrNoKey, or a blank key, is passed
// over. Any other error, Skip included, ends the search and is returned. When
// none gives a key, the error wraps ErrNoKey and says why for each. Nil Keys
// are left out; without any other the result is nil.
func FirstOf(keys ...Key) Key {
	var f firstOf
	for _, k := range keys {
		switch k := k.(type) {
		case nil:
		case *firstOf:
			f.keys = append(f.keys, k.keys...)
		default:
			f.keys = append(f.keys, k)
		}
	}
	switch len(f.keys) {
	case 0:
		return nil
	case 1:
		return f.keys[0]
	}
	return &f
}

// firstOf is a pointer wherever it is used: Keys can be compared with ==
// without a panic.
type firstOf struct{ keys []Key }

func (f *firstOf) Of(m Message) (string, error) {
	whys := make([]string, 0, len(f.keys))
	for _, k := range f.keys {
		v, err := k.Of(m)
		switch {
		case err == nil && !BlankKey(v):
			return v, nil
		case err == nil:
			whys = append(whys, k.String()+" gives a blank key")
		case errors.Is(err, Skip) || !errors.Is(err, ErrNoKey):
			return "", err
		default:
			whys = append(whys, whyAbsent(err))
		}
	}
	return "", &absent{why: strings.Join(whys, "; ")}
}

func (f *firstOf) String() string {
	rules := make([]string, len(f.keys))
	for i, k := range f.keys {
		rules[i] = k.String()
	}
	return strings.Join(rules, ", ")
}

// absent is the error of a source that has no key for a message. It wraps
// ErrNoKey and never shows a value: reasons go to logs and letters.
type absent struct{ why string }

func (a *absent) Error() string { return a.why + ": " + ErrNoKey.Error() }
func (a *absent) Unwrap() error { return ErrNoKey }

func absentf(format string, args ...any) error {
	return &absent{why: fmt.Sprintf(format, args...)}
}

// whyAbsent gives the reason without the text of ErrNoKey, which is said once.
func whyAbsent(err error) string {
	return strings.TrimSuffix(err.Error(), ": "+ErrNoKey.Error())
}
