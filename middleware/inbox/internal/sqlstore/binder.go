package sqlstore

import "strings"

// Binder takes the values of one statement and returns what stands for them in
// its text.
type Binder struct {
	// Args for the statement.
	Args []any
	// Mark returns the placeholder of the n-th argument, counted from 1.
	Mark func(n int) string
	// Literal writes a value into the text instead, where it saves a round trip.
	// v is a string, an int64 or a []byte (nil: NULL). Defaults to nil: bound.
	Literal func(v any) string
}

// Text binds a string. Never a []byte: SQLite would store a blob, which is
// equal to no text.
func (b *Binder) Text(s string) string { return b.bind(s) }

// Int binds a number.
func (b *Binder) Int(n int64) string { return b.bind(n) }

// Bytes binds bytes; empty ones are NULL.
func (b *Binder) Bytes(p []byte) string {
	if len(p) == 0 {
		if b.Literal != nil {
			return b.Literal([]byte(nil))
		}
		return b.bind(nil)
	}
	return b.bind(p)
}

func (b *Binder) bind(v any) string {
	if b.Literal != nil {
		return b.Literal(v)
	}
	b.Args = append(b.Args, v)
	return b.Mark(len(b.Args))
}

// QuestionMarks is a Mark.
func QuestionMarks(int) string { return "?" }

// Join writes one piece for every element, separated by sep.
func Join[T any](vs []T, sep string, piece func(i int, v T) string) string {
	var sb strings.Builder
	for i, v := range vs {
		if i > 0 {
			sb.WriteString(sep)
		}
		sb.WriteString(piece(i, v))
	}
	return sb.String()
}
