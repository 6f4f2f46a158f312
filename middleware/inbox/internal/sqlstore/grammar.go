package sqlstore

import (
	"fmt"
	"strings"
)

// Savepoint is the name that the store keeps for itself, with all that begin so.
const Savepoint = "sekali"

// Grammar is what must be known of a database's SQL to tell how the statements
// in a string begin. Phrases are upper case words with one space between; the
// longest phrase that fits the beginning of a statement decides.
type Grammar struct {
	// Refused statements end the transaction, or begin another.
	Refused []string
	// Allowed exempts longer phrases from Refused.
	Allowed []string
	// RefusedWords are refused anywhere in a string whose statement begins with the
	// first one: an assignment among others, as in SET a = 1, autocommit = 1.
	RefusedWords [][2]string
	// Unjudged statements run code that is not in their text.
	Unjudged []string

	// DollarQuotes: $tag$ ... $tag$.
	DollarQuotes bool
	// NestedComments: /* /* */ */ is one comment.
	NestedComments bool
	// ReturnEndsComment: a carriage return ends a -- comment, as a line feed does.
	ReturnEndsComment bool
	// HashComments: # to the end of the line.
	HashComments bool
	// VersionComments: /*! ... */ is code.
	VersionComments bool
	// Backslash: a backslash escapes in '...' and "..." (unless the server's mode
	// says otherwise). Without it, it does in E'...' only.
	Backslash bool
	// Backticks and Brackets quote identifiers.
	Backticks, Brackets bool
}

// Transactions are the phrases that every database has, to begin Refused and
// Allowed with.
var (
	TransactionRefused = []string{"COMMIT", "END", "ROLLBACK", "BEGIN", "START TRANSACTION"}
	TransactionAllowed = []string{"ROLLBACK TO", "ROLLBACK WORK TO", "ROLLBACK TRANSACTION TO"}
)

// verdict is what the text of one call tells.
type verdict struct {
	// refused is the phrase that must not be sent; "" when there is none.
	refused string
	// undoes: a ROLLBACK TO is among the statements.
	undoes bool
	// unjudged: the text does not tell whether the transaction stays open.
	unjudged bool
	// marks are its savepoints.
	marks Marks
}

func (v verdict) err() error {
	if v.refused == "" {
		return nil
	}
	if strings.Contains(v.refused, " "+strings.ToUpper(Savepoint)) {
		return fmt.Errorf("%s refused: savepoints whose names begin with %s are the inbox's own, use another name", v.refused, Savepoint)
	}
	return fmt.Errorf("%s refused: the inbox ends the claim's transaction itself, when the handler returned; return an error to undo, use SAVEPOINT for a part", v.refused)
}

// headWords is how many words tell a statement: ROLLBACK TRANSACTION TO
// SAVEPOINT name.
const headWords = 5

// judge reads the text of one call.
func (g *Grammar) judge(query string) verdict {
	var v verdict
	l := lexer{g: g, s: query}
	// Only a string with a semicolon can hold more than one statement.
	single := strings.IndexByte(query, ';') < 0
	for !l.done() {
		head := l.statement(single)
		g.verdict(&v, head)
		g.words(&v, head, query)
	}
	if l.unsure && !single {
		v.unjudged = true
	}
	if l.versioned {
		v.unjudged = true
	}
	return v
}

// verdict adds what one statement's first words tell.
func (g *Grammar) verdict(v *verdict, head []string) {
	if len(head) == 0 {
		return
	}
	refused, r := longest(g.Refused, head)
	_, a := longest(g.Allowed, head)
	if r > a && v.refused == "" {
		v.refused = refused
	}
	if _, n := longest(g.Unjudged, head); n > 0 {
		v.unjudged = true
	}
	name, kind := "", sets
	switch rest := head[1:]; head[0] {
	case "SAVEPOINT":
		name = first(rest)
	case "RELEASE":
		name, kind = first(skip(rest, "SAVEPOINT")), releases
	case "ROLLBACK":
		rest = skip(skip(rest, "WORK"), "TRANSACTION")
		if first(rest) == "TO" {
			v.undoes = true
			name, kind = first(skip(rest[1:], "SAVEPOINT")), returns
		}
	}
	if name != "" {
		v.marks = append(v.marks, mark{kind, name})
	}
	if own := strings.ToUpper(Savepoint); strings.HasPrefix(strings.ToUpper(name), own) && v.refused == "" {
		v.refused = head[0] + " " + own
	}
}

// words looks for RefusedWords. A word in a string or comment is refused too:
// better one statement too many.
func (g *Grammar) words(v *verdict, head []string, query string) {
	for _, w := range g.RefusedWords {
		if v.refused == "" && first(head) == w[0] && strings.Contains(strings.ToUpper(query), w[1]) {
			v.refused = w[0] + " " + w[1]
		}
	}
}

// longest returns the longest phrase that words begin with, and its length in
// words.
func longest(phrases, words []string) (string, int) {
	best, n := "", 0
	for _, p := range phrases {
		if k := leads(p, words); k > n {
			best, n = p, k
		}
	}
	return best, n
}

// leads returns how many words the phrase has when words begin with it, else 0.
func leads(phrase string, words []string) int {
	for n, w := range words {
		rest, ok := strings.CutPrefix(phrase, w)
		switch {
		case !ok:
			return 0
		case rest == "":
			return n + 1
		case rest[0] != ' ':
			return 0
		}
		phrase = rest[1:]
	}
	return 0
}

func first(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

func skip(words []string, w string) []string {
	if first(words) == w {
		return words[1:]
	}
	return words
}
