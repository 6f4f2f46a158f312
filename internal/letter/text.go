package letter

import (
	"strings"
	"unicode/utf8"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// MaxReason is the longest reason that Reason returns, in bytes.
const MaxReason = 4 << 10

// Text gives the one text form of a header value: decimals in plain notation,
// all else as keys read it, see inbox.HeaderText. False for what has none: nil,
// arrays and tables.
func Text(v any) (string, bool) {
	if d, ok := v.(Decimal); ok {
		return d.String(), true
	}
	return inbox.HeaderText(v)
}

// Int reads an integer header of any width.
func Int(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case int32:
		return int64(v), true
	case int16:
		return int64(v), true
	case int8:
		return int64(v), true
	case uint8:
		return int64(v), true
	case uint16:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int:
		return int64(v), true
	}
	return 0, false
}

// Reason gives the text of an error as it is kept in a letter: valid UTF-8
// without NUL, at most MaxReason bytes. A header block must fit one frame of
// the broker, so that an unbounded text would make the letter unsendable.
func Reason(err error) string {
	if err == nil {
		return ""
	}
	s := err.Error()
	if len(s) > 2*MaxReason {
		s = s[:2*MaxReason]
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	return cut(strings.ReplaceAll(s, "\x00", "\uFFFD"), MaxReason)
}

// cut shortens valid UTF-8 to at most n bytes and marks that it did.
func cut(s string, n int) string {
	const mark = " ..."
	if len(s) <= n {
		return s
	}
	end := n - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
