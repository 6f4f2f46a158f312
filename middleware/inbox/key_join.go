package inbox

import "strings"

// frameEscape keeps the separator of FrameKey out of its parts.
var frameEscape = strings.NewReplacer("~", "~0", "|", "~1")

// FrameKey makes one key of several parts so that different parts always make
// different keys: parts are separated by |, and inside them ~ is written ~0
// and | is written ~1. ("acme", "17") is acme|17, ("a|b", "c") is a~1b|c. The
// rule join(...) and cloudevents use it; use it in a KeyFunc too. Not for one
// key out of a varying set of optional parts: it does not say which are there.
func FrameKey(first string, more ...string) string {
	var b strings.Builder
	b.WriteString(frameEscape.Replace(first))
	for _, p := range more {
		b.WriteByte('|')
		b.WriteString(frameEscape.Replace(p))
	}
	return b.String()
}

// joinKey is join(a, b, ...).
type joinKey struct{ parts []Key }

func (k *joinKey) Of(m Message) (string, error) {
	values := make([]string, len(k.parts))
	for i, p := range k.parts {
		v, err := p.Of(m)
		if err != nil {
			return "", absentf("join: %s", whyAbsent(err))
		}
		values[i] = v
	}
	return FrameKey(values[0], values[1:]...), nil
}

func (k *joinKey) String() string {
	return "join(" + (&firstOf{keys: k.parts}).String() + ")"
}
