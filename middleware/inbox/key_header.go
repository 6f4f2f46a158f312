package inbox

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// headerKey is header:<name>. Names are compared byte by byte, as AMQP does.
type headerKey struct{ name string }

func (k headerKey) Of(m Message) (string, error) {
	v, ok := m.Header(k.name)
	if !ok {
		return "", absentf("%s is absent", k)
	}
	text, ok := HeaderText(v)
	switch {
	case !ok:
		return "", absentf("%s holds a %T, which has no text form", k, v)
	case BlankKey(text):
		return "", absentf("%s is blank", k)
	}
	return text, nil
}

func (k headerKey) String() string { return "header:" + quoteName(k.name) }

// messageIDKey is message-id.
type messageIDKey struct{}

func (messageIDKey) Of(m Message) (string, error) {
	if id := m.MessageID(); !BlankKey(id) {
		return id, nil
	}
	return "", absentf("message-id is absent")
}

func (messageIDKey) String() string { return "message-id" }

// HeaderText gives the one text form of a header value, for keys and for
// transports that hand headers on as text: both must agree, or one message has
// two keys. Two values of one type never share a text.
//
//	string, []byte   the bytes as they are
//	integers         decimal
//	bool             true, false
//	float32, float64 the shortest decimal that reads back the same, as
//	                 strconv.FormatFloat(f, 'g', -1, bits) writes it
//	time.Time        RFC 3339 in UTC, with as many fractional digits as needed;
//	                 outside the years 0 to 9999, @ and the Unix time
//
// It reports false for what has no text form: nil, tables, arrays, NaN and
// the infinities, and every other type.
func HeaderText(v any) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	case bool:
		return strconv.FormatBool(v), true
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return fmt.Sprint(v), true
	case float32:
		return floatText(float64(v), 32)
	case float64:
		return floatText(v, 64)
	case time.Time:
		return timeText(v), true
	}
	return "", false
}

func floatText(f float64, bits int) (string, bool) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return "", false
	}
	return strconv.FormatFloat(f, 'g', -1, bits), true
}

// timeText looks at Unix seconds: they keep every AMQP timestamp apart, where
// calendar years of far-off times overflow.
func timeText(t time.Time) string {
	const year0, year10000 = -62167219200, 253402300800
	if s := t.Unix(); s < year0 || s >= year10000 {
		return fmt.Sprintf("@%d.%09d", s, t.Nanosecond())
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// unstableHeader says why a header cannot name an intent, or "".
func unstableHeader(name string, inJoin bool) string {
	lower := strings.ToLower(name)
	switch {
	case lower == "x-delivery-count", lower == "x-acquired-count", lower == "x-death",
		strings.HasPrefix(lower, "x-first-death-"), strings.HasPrefix(lower, "x-last-death-"):
		return "is written by the broker and tells of deliveries, not of the message"
	case lower == "x-stream-offset" && !inJoin:
		return "is an offset, which names a message only together with its stream, in a join"
	case strings.HasPrefix(lower, "sekali-"):
		return "belongs to Sekali, which reads it before any rule"
	}
	return ""
}
