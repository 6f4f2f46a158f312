package inbox

import (
	"fmt"
	"strings"
)

// ParseKey reads a key rule. A rule is one source, or several with commas
// between them: the first that gives a key wins. Blanks and line breaks around
// sources are ignored.
//
//	header:<name>     a header, in the text form of HeaderText
//	message-id        the broker's message ID
//	json:<pointer>    a string or number in a JSON body, by RFC 6901 pointer
//	cloudevents       source and id of a CloudEvent, framed
//	join(a, b, ...)   two or more sources, framed, see FrameKey; a missing part
//	                  means that the join gives no key
//
// Names and pointers that hold anything but visible ASCII, or a comma, a
// parenthesis, a quote or a backslash, are put in double quotes:
// header:"order id". Inside, \" and \\ stand for themselves and \xHH for a
// byte; other control characters and broken UTF-8 are refused.
//
// A source whose value is missing, empty or only spaces and tabs gives no key.
// Nothing else is trimmed, folded or cut. What a source gives is not marked
// with the source it came from: event_id "7" and message ID "7" are one key.
//
// The Key's String is the rule's one canonical form, and ParseKey of it gives
// an equal Key. Errors name the position of the fault, counted in bytes from
// 1, and what may stand there. A rule that names a func is refused with
// ErrFuncKey. So are, as names, headers that the broker writes anew with each
// delivery, and Sekali's own.
func ParseKey(rule string) (Key, error) {
	p := keyParser{rule: rule}
	keys, err := p.list("")
	if err != nil {
		return nil, err
	}
	return FirstOf(keys...), nil
}

const keySources = "header:<name>, message-id, json:<pointer>, cloudevents or join(a, b, ...)"

// keyParser walks a rule once, left to right. The grammar does not nest: a
// join holds no join, since listing the parts says the same.
type keyParser struct {
	rule string
	pos  int
}

// errorf makes an error at a position.
func (p *keyParser) errorf(pos int, format string, args ...any) error {
	return fmt.Errorf("key rule %q: position %d: %w", p.rule, pos+1, fmt.Errorf(format, args...))
}

// list reads sources up to the end of the rule, or, inside a join, up to its
// closing parenthesis.
func (p *keyParser) list(join string) ([]Key, error) {
	var keys []Key
	for {
		k, err := p.source(join)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
		p.blanks()
		switch {
		case p.at(','):
			p.pos++
		case join != "" && p.at(')'):
			return keys, nil
		case join == "" && p.end():
			return keys, nil
		case p.end():
			return nil, p.errorf(p.pos, "rule ends inside join(: close it with a parenthesis")
		case p.at(')'):
			return nil, p.errorf(p.pos, "no join is open here: quote a name that holds a parenthesis")
		default:
			return nil, p.errorf(p.pos, "unexpected %q after %s: put a comma between sources, quote names with other than visible ASCII characters", p.rest(), k)
		}
	}
}

// source reads one source.
func (p *keyParser) source(join string) (Key, error) {
	p.blanks()
	start := p.pos
	for !p.end() && bareByte(p.rule[p.pos]) && p.rule[p.pos] != ':' {
		p.pos++
	}
	kind := p.rule[start:p.pos]
	switch kind {
	case "message-id", "cloudevents":
		if p.at(':') || p.at('(') {
			return nil, p.errorf(p.pos, "%s takes no name: write %s alone", kind, kind)
		}
		if kind == "message-id" {
			return messageIDKey{}, nil
		}
		return cloudEventsKey{}, nil
	case "header", "json", "func":
		if !p.at(':') {
			return nil, p.errorf(p.pos, "%s needs a colon and a name, nothing between: write %s", kind, keyExamples[kind])
		}
		p.pos++
		return p.named(kind, start, join)
	case "join":
		return p.join(start, join)
	case "":
		return nil, p.errorf(start, "a source is missing: use %s", keySources)
	}
	hint := ""
	if !p.at(':') && !p.at('(') {
		hint = ", a header is written header:" + kind
	}
	return nil, p.errorf(start, "unknown source %q: use %s%s", kind, keySources, hint)
}

var keyExamples = map[string]string{"header": "header:event_id", "json": "json:/order/id", "func": "func:order"}

// named reads the name of a source that has one.
func (p *keyParser) named(kind string, start int, join string) (Key, error) {
	at := p.pos
	name, err := p.name()
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, p.errorf(at, "%s: has no name (none, or a blank after the colon): write for example %s", kind, keyExamples[kind])
	}
	switch kind {
	case "json":
		k, err := newJSONKey(name)
		if err != nil {
			return nil, p.errorf(at, "pointer %q %w", name, err)
		}
		return k, nil
	case "func":
		return nil, p.errorf(start, "%w", ErrFuncKey)
	}
	if why := unstableHeader(name, join != ""); why != "" {
		return nil, p.errorf(at, "header %q %s: use one that the producer sets and repeats with every copy", name, why)
	}
	return headerKey{name: name}, nil
}

// join reads a join after its word.
func (p *keyParser) join(start int, outer string) (Key, error) {
	if outer != "" {
		return nil, p.errorf(start, "a join holds no join: list all parts in one")
	}
	if !p.at('(') {
		return nil, p.errorf(p.pos, "join needs its parts in parentheses: write join(header:tenant, json:/order/id)")
	}
	p.pos++
	parts, err := p.list("join")
	if err != nil {
		return nil, err
	}
	if len(parts) < 2 { //nolint:mnd // what join means
		return nil, p.errorf(start, "join has one part, it needs two or more: write the source alone")
	}
	p.pos++ // the closing parenthesis
	return &joinKey{parts: parts}, nil
}

// name reads a bare or quoted name. A missing one is "".
func (p *keyParser) name() (string, error) {
	if !p.at('"') {
		start := p.pos
		for !p.end() && bareByte(p.rule[p.pos]) {
			p.pos++
		}
		if !p.end() && (p.rule[p.pos] == '\\' || p.rule[p.pos] >= 0x7f) {
			return "", p.errorf(p.pos, "character %q cannot stand in a bare name: put the name in double quotes", p.rest())
		}
		return p.rule[start:p.pos], nil
	}
	name, n, err := unquoteName(p.rule[p.pos:])
	if err != nil {
		return "", p.errorf(p.pos+n, "%w", err)
	}
	p.pos += n
	return name, nil
}

func (p *keyParser) end() bool      { return p.pos == len(p.rule) }
func (p *keyParser) at(c byte) bool { return !p.end() && p.rule[p.pos] == c }

// blanks skips what may stand around sources.
func (p *keyParser) blanks() {
	for !p.end() && strings.IndexByte(" \t\r\n", p.rule[p.pos]) >= 0 {
		p.pos++
	}
}

// rest gives a short look at what comes next.
func (p *keyParser) rest() string {
	const look = 12
	rest := []rune(p.rule[p.pos:min(len(p.rule), p.pos+4*look)])
	return string(rest[:min(len(rest), look)])
}
