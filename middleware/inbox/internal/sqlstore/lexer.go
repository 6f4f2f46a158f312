package sqlstore

import "strings"

// lexer finds the first words of each statement in a string. It need not
// understand SQL, only where strings, identifiers and comments end.
type lexer struct {
	g *Grammar
	s string
	i int
	// unsure: a quote or comment could end elsewhere than read here.
	unsure bool
	// versioned: a /*! comment was read as code.
	versioned bool
}

func (l *lexer) done() bool { return l.i >= len(l.s) }

func (l *lexer) has(prefix string) bool { return strings.HasPrefix(l.s[l.i:], prefix) }

// statement reads to the next semicolon and returns the first words, upper
// case. With headOnly it stops as soon as it has them.
func (l *lexer) statement(headOnly bool) []string {
	head := make([]string, 0, headWords)
	open := true // still collecting
	for !l.done() {
		if headOnly && (!open || len(head) == headWords) {
			l.i = len(l.s)
			return head
		}
		c := l.s[l.i]
		switch {
		case c == ';':
			l.i++
			return head
		case l.space():
		case c == '(' && len(head) == 0:
			l.i++
		case c == '\'':
			word := l.quoted('\'', l.g.Backslash)
			if open && len(head) > 0 && len(head) < headWords {
				head = append(head, strings.ToUpper(word)) // a name, on SQLite
			}
		case (c == 'E' || c == 'e') && l.next() == '\'':
			l.i++
			l.quoted('\'', true)
			open = false
		case c == '"' || c == '`' && l.g.Backticks:
			word := l.quoted(c, l.g.Backslash && c == '"')
			if open && len(head) > 0 && len(head) < headWords {
				head = append(head, strings.ToUpper(word))
			}
		case c == '[' && l.g.Brackets:
			word := l.until("]")
			if open && len(head) > 0 && len(head) < headWords {
				head = append(head, strings.ToUpper(word))
			}
		case c == '$' && l.g.DollarQuotes && l.dollar():
			open = false
		case wordByte(c):
			word := l.word()
			if open && len(head) < headWords {
				head = append(head, strings.ToUpper(word))
			}
		default:
			l.i++
			open = false
		}
	}
	return head
}

func (l *lexer) next() byte {
	if l.i+1 < len(l.s) {
		return l.s[l.i+1]
	}
	return 0
}

// space skips one blank or one comment.
func (l *lexer) space() bool {
	switch c := l.s[l.i]; {
	case c == ' ' || c >= '\t' && c <= '\r':
		l.i++
	case l.has("--") && (!l.g.HashComments || l.i+2 == len(l.s) || l.s[l.i+2] <= ' '),
		c == '#' && l.g.HashComments:
		ends := "\n"
		if l.g.ReturnEndsComment {
			ends = "\r\n"
		}
		if n := strings.IndexAny(l.s[l.i:], ends); n >= 0 {
			l.i += n + 1
		} else {
			l.i = len(l.s)
		}
	case l.g.VersionComments && (l.has("/*!") || l.has("/*M!")):
		l.versioned = true
		l.i += strings.IndexByte(l.s[l.i:], '!') + 1
		for !l.done() && l.s[l.i] >= '0' && l.s[l.i] <= '9' {
			l.i++
		}
	case l.versioned && l.has("*/"):
		l.i += 2
	case l.has("/*"):
		l.comment()
	default:
		return false
	}
	return true
}

func (l *lexer) comment() {
	depth := 0
	for !l.done() {
		switch {
		case l.has("/*") && (depth == 0 || l.g.NestedComments):
			depth++
			l.i += 2
		case l.has("*/"):
			depth--
			l.i += 2
			if depth == 0 {
				return
			}
		default:
			l.i++
		}
	}
	l.unsure = true
}

// quoted skips a string or identifier; a doubled quote stays inside.
func (l *lexer) quoted(q byte, backslash bool) string {
	l.i++
	start := l.i
	for !l.done() {
		switch c := l.s[l.i]; {
		case c == '\\':
			// Whether it escapes depends on a server setting, except in E'...'; that
			// matters only before a quote or another backslash.
			certain := backslash != l.g.Backslash || q != '\'' && !l.g.Backslash
			if n := l.next(); !certain && (n == q || n == '\\') {
				l.unsure = true
			}
			l.i++
			if backslash && !l.done() {
				l.i++
			}
		case c != q:
			l.i++
		case l.next() == q:
			l.i += 2
		default:
			l.i++
			return l.s[start : l.i-1]
		}
	}
	l.unsure = true
	return l.s[start:]
}

func (l *lexer) until(end string) string {
	l.i++
	start := l.i
	n := strings.Index(l.s[l.i:], end)
	if n < 0 {
		l.unsure = true
		l.i = len(l.s)
		return l.s[start:]
	}
	l.i += n + len(end)
	return l.s[start : start+n]
}

// dollar skips $tag$ ... $tag$ when one begins here; $1 is a parameter.
func (l *lexer) dollar() bool {
	n := strings.IndexByte(l.s[l.i+1:], '$')
	if n < 0 {
		return false
	}
	tag := l.s[l.i : l.i+n+2]
	for j, c := range []byte(tag[1 : len(tag)-1]) {
		if !wordByte(c) || c == '@' || c == '$' || j == 0 && c >= '0' && c <= '9' {
			return false
		}
	}
	l.i += len(tag)
	end := strings.Index(l.s[l.i:], tag)
	if end < 0 {
		l.unsure = true
		l.i = len(l.s)
		return true
	}
	l.i += end + len(tag)
	return true
}

func (l *lexer) word() string {
	start := l.i
	for !l.done() && (wordByte(l.s[l.i]) || l.s[l.i] == '$') {
		l.i++
	}
	return l.s[start:l.i]
}

// wordByte: '@' is in it for SET @@autocommit, bytes from 0x80 on are letters
// of identifiers.
func wordByte(c byte) bool {
	return c == '_' || c == '@' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}
