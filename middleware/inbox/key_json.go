package inbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonKey is json:<pointer>. It gives a key for
//
//   - a string: decoded, so that "\u0041" and "A" are one key;
//   - a number: as it is written in the body. 9007199254740993 stays what it
//     is, and 1, 1.0 and 1e0 are three keys. The string "1" and the number 1
//     are one key.
//
// It gives none, and the next source is tried, for what cannot be told apart
// or names nothing: a body that is not JSON, a path that leads nowhere, a
// name on the path that its object has twice (readers disagree on which one
// counts), a string with broken UTF-8 or half a surrogate pair (decoders turn
// all of these into U+FFFD), a blank string, null, true, false, an object, an
// array.
type jsonKey struct {
	pointer string
	path    []string
}

// newJSONKey reads an RFC 6901 pointer. Errors continue "pointer <p> ...".
func newJSONKey(pointer string) (*jsonKey, error) {
	switch {
	case !strings.HasPrefix(pointer, "/"):
		return nil, errors.New("must begin with a slash: write for example json:/order/id")
	case !utf8.ValidString(pointer):
		return nil, errors.New("is not UTF-8: no name in a JSON body can match it")
	}
	path := strings.Split(pointer[1:], "/")
	for i, step := range path {
		for rest := step; ; {
			_, after, found := strings.Cut(rest, "~")
			if !found {
				break
			}
			if after == "" || after[0] != '0' && after[0] != '1' {
				return nil, errors.New("has a ~ without 0 or 1 after it: write ~0 for ~ and ~1 for / in a name")
			}
			rest = after
		}
		path[i] = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
	}
	return &jsonKey{pointer: pointer, path: path}, nil
}

func (k *jsonKey) Of(m Message) (string, error) {
	text, _, why := jsonText(m.Body(), k.path)
	if why != "" {
		return "", absentf("%s: %s", k, why)
	}
	return text, nil
}

func (k *jsonKey) String() string { return "json:" + quoteName(k.pointer) }

// jsonText gives the text of the string or number at path, and whether it was
// a string, or why there is none.
func jsonText(body []byte, path []string) (text string, isString bool, why string) {
	if !json.Valid(body) {
		return "", false, "the body is not JSON"
	}
	start := jsonBlanks(body, 0)
	v, why := jsonFind(body[start:jsonEnd(body, start)], path)
	if why != "" {
		return "", false, why
	}
	switch v[0] {
	case '"':
		s, ok := jsonString(v)
		switch {
		case !ok:
			return "", true, "the string has broken UTF-8 or half a surrogate pair"
		case BlankKey(s):
			return "", true, "the string is blank"
		}
		return s, true, ""
	case '{':
		return "", false, "the value is an object"
	case '[':
		return "", false, "the value is an array"
	case 'n':
		return "", false, "the value is null"
	case 't', 'f':
		return "", false, "the value is a boolean"
	}
	return string(v), false, ""
}

// jsonFind walks path from v. All functions from here on take JSON that was
// found valid, which is what makes them short.
func jsonFind(v []byte, path []string) (found []byte, why string) {
	for _, step := range path {
		switch v[0] {
		case '{':
			v, why = jsonMember(v, step)
		case '[':
			v, why = jsonElement(v, step)
		default:
			return nil, "the path leads through a value that is no object or array"
		}
		if why != "" {
			return nil, why
		}
	}
	return v, ""
}

// jsonMember finds the one member of an object that has a name.
func jsonMember(v []byte, name string) (found []byte, why string) {
	for i := jsonBlanks(v, 1); v[i] != '}'; {
		end := jsonEnd(v, i)
		n, ok := jsonString(v[i:end])
		i = jsonBlanks(v, jsonBlanks(v, end)+1) // after the colon
		end = jsonEnd(v, i)
		if ok && n == name {
			if found != nil {
				return nil, "an object on the path has the name twice"
			}
			found = v[i:end]
		}
		i = jsonNext(v, end)
	}
	if found == nil {
		return nil, "the body has no such member"
	}
	return found, ""
}

// jsonElement finds an element of an array. Indexes are decimal without
// leading zeros.
func jsonElement(v []byte, index string) (found []byte, why string) {
	want, err := strconv.Atoi(index)
	if err != nil || strconv.Itoa(want) != index {
		return nil, "the path names a member of an array"
	}
	for i, n := jsonBlanks(v, 1), 0; v[i] != ']'; n++ {
		end := jsonEnd(v, i)
		if n == want {
			return v[i:end], ""
		}
		i = jsonNext(v, end)
	}
	return nil, "the body has no such element"
}

// jsonNext steps from the end of one member or element to the next, or to the
// closing bracket.
func jsonNext(v []byte, i int) int {
	if i = jsonBlanks(v, i); v[i] == ',' {
		return jsonBlanks(v, i+1)
	}
	return i
}

// jsonBlanks skips white space.
func jsonBlanks(v []byte, i int) int {
	for i < len(v) && strings.IndexByte(" \t\r\n", v[i]) >= 0 {
		i++
	}
	return i
}

// jsonEnd gives the end of the value that begins at i.
func jsonEnd(v []byte, i int) int {
	for depth := 0; i < len(v); {
		switch v[i] {
		case '"':
			for i++; v[i] != '"'; i++ {
				if v[i] == '\\' {
					i++
				}
			}
			i++
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\r', '\n':
			i++
		default:
			for i < len(v) && strings.IndexByte(",:]} \t\r\n", v[i]) < 0 {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// jsonString decodes a string token. It reports false where encoding/json
// would put U+FFFD in the place of what it cannot decode.
func jsonString(token []byte) (string, bool) {
	if !utf8.Valid(token) {
		return "", false
	}
	if bytes.IndexByte(token, '\\') < 0 {
		return string(token[1 : len(token)-1]), true
	}
	for i := 0; i < len(token); i++ {
		if token[i] != '\\' {
			continue
		}
		if i++; token[i] != 'u' {
			continue
		}
		if r := jsonUnit(token[i+1:]); utf16.IsSurrogate(r) {
			next := token[i+5:]
			if len(next) < 6 || next[0] != '\\' || next[1] != 'u' || utf16.DecodeRune(r, jsonUnit(next[2:])) == utf8.RuneError {
				return "", false
			}
			i += 6
		}
		i += 4
	}
	var s string
	err := json.Unmarshal(token, &s)
	return s, err == nil
}

// jsonUnit reads the four digits of a \u escape.
func jsonUnit(b []byte) rune {
	u, _ := strconv.ParseUint(string(b[:4]), 16, 16) // digits, or the body was not valid
	return rune(u)
}
