package report

import (
	"encoding/json"
	"io"
	"strings"
	"text/tabwriter"
)

// Printer prints results, in the form that was asked for.
type Printer struct {
	w    io.Writer
	json bool
}

// New returns a printer on w.
func New(w io.Writer, asJSON bool) *Printer { return &Printer{w: w, json: asJSON} }

// JSON tells whether objects are printed instead of tables.
func (p *Printer) JSON() bool { return p.json }

// Object prints v as one line of JSON; in the other form it calls text.
func (p *Printer) Object(v any, text func()) error {
	if !p.json {
		text()
		return nil
	}
	encoder := json.NewEncoder(p.w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// Linef prints a line for people; nothing in JSON.
func (p *Printer) Linef(format string, args ...any) {
	if !p.json {
		Linef(p.w, format, args...)
	}
}

// Fields prints names and values below each other for people; nothing in JSON.
// Empty values are left out.
func (p *Printer) Fields(pairs ...string) {
	if p.json {
		return
	}
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			Linef(t, "%s\t%s", pairs[i], Printable(pairs[i+1]))
		}
	}
	_ = t.Flush()
}

// Column of a table.
type Column[T any] struct {
	Head string
	Cell func(T) string
}

// Table prints rows as they come: objects at once, lines of a table in portions,
// so that memory stays flat.
type Table[T any] struct {
	p       *Printer
	columns []Column[T]
	object  func(T) any
	tab     *tabwriter.Writer
	rows    int
}

// portion is how many rows are aligned with each other.
const portion = 500

// NewTable begins a table; object makes the JSON of a row.
func NewTable[T any](p *Printer, object func(T) any, columns ...Column[T]) *Table[T] {
	return &Table[T]{p: p, columns: columns, object: object, tab: tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)}
}

// Add prints a row.
func (t *Table[T]) Add(row T) error {
	if t.p.json {
		return t.p.Object(t.object(row), nil)
	}
	if t.rows == 0 {
		t.line(func(c Column[T]) string { return c.Head })
	}
	t.rows++
	t.line(func(c Column[T]) string { return Printable(c.Cell(row)) })
	if t.rows%portion == 0 {
		return t.tab.Flush()
	}
	return nil
}

// End prints what is not printed yet, and none when there was no row.
func (t *Table[T]) End(none string) error {
	if t.rows == 0 {
		t.p.Linef("%s", none)
		return nil
	}
	return t.tab.Flush()
}

// Rows that were added, in table form.
func (t *Table[T]) Rows() int { return t.rows }

func (t *Table[T]) line(cell func(Column[T]) string) {
	cells := make([]string, len(t.columns))
	for i, c := range t.columns {
		cells[i] = cell(c)
		if cells[i] == "" {
			cells[i] = "-"
		}
	}
	Linef(t.tab, "%s", strings.Join(cells, "\t"))
}
