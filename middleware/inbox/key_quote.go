package inbox

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// bareByte tells what may stand in a name without quotes: visible ASCII but
// what the grammar uses.
func bareByte(c byte) bool {
	return c > ' ' && c < 0x7f && strings.IndexByte(`,()"\`, c) < 0
}

// quoteName gives the one form in which a name stands in a rule: bare where
// that is possible. strconv.Quote would not do, what it escapes depends on the
// Unicode tables of the Go release, and a registered rule must not change.
func quoteName(name string) string {
	bare := name != ""
	for i := range len(name) {
		bare = bare && bareByte(name[i])
	}
	if bare {
		return name
	}
	const hex = "0123456789abcdef"
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(name); {
		c := name[i]
		r, n := utf8.DecodeRuneInString(name[i:])
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c == 0x7f || r == utf8.RuneError && n == 1:
			b.WriteString(`\x`)
			b.WriteByte(hex[c>>4]) //nolint:mnd // two digits a byte
			b.WriteByte(hex[c&0xf])
		default:
			b.WriteString(name[i : i+n])
		}
		i += n
	}
	b.WriteByte('"')
	return b.String()
}

// unquoteName reads the quoted name at the start of s. It returns the name and
// the number of bytes it took; with an error, the offset of the fault.
func unquoteName(s string) (name string, n int, err error) {
	var b strings.Builder
	for i := 1; i < len(s); {
		c := s[i]
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == '"':
			return b.String(), i + 1, nil
		case c == '\\':
			rest := s[i+1:]
			if rest != "" && (rest[0] == '"' || rest[0] == '\\') {
				b.WriteByte(rest[0])
				i += 2
				continue
			}
			v, err := byteEscape(rest)
			if err != nil {
				return "", i, err
			}
			b.WriteByte(v)
			i += 4
			continue
		case c < ' ' || c == 0x7f || r == utf8.RuneError && size == 1:
			return "", i, errors.New(`control character or broken UTF-8 in a quoted name: write it as \xHH`)
		}
		b.WriteString(s[i : i+size])
		i += size
	}
	return "", 0, errors.New("quoted name does not end: close it with a double quote")
}

// byteEscape reads xHH, what follows a backslash.
func byteEscape(s string) (byte, error) {
	if len(s) >= 3 && s[0] == 'x' {
		if v, err := strconv.ParseUint(s[1:3], 16, 8); err == nil {
			return byte(v), nil
		}
	}
	return 0, errors.New(`unknown escape in a quoted name: use \", \\ or \xHH`)
}
