package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestWhatIsPrintedCannotSteerATerminal(t *testing.T) {
	for in, want := range map[string]string{
		"plain Ünïcode ☕":    "plain Ünïcode ☕",
		"a\x1b[2Jb":          `a\x1b[2Jb`,
		"line\nbreak\ttab":   `line\nbreak\ttab`,
		"bell\a \"quoted\"":  `bell\a "quoted"`,
		"broken \xff utf-8":  `broken \xff utf-8`,
		"right\u202eto left": `right\u202eto left`,
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q is printed as %q, want %q", in, got, want)
		}
	}
}

type row struct {
	A string `json:"a"`
	B string `json:"b"`
}

func table(w *bytes.Buffer, asJSON bool, rows ...row) {
	tab := NewTable(New(w, asJSON), func(r row) any { return r },
		Column[row]{"A", func(r row) string { return r.A }}, Column[row]{"B", func(r row) string { return r.B }})
	for _, r := range rows {
		_ = tab.Add(r)
	}
	_ = tab.End("none")
}

func TestATableIsAlignedAndEmptyCellsAreMarked(t *testing.T) {
	var w bytes.Buffer
	table(&w, false, row{"long value", "x"}, row{"", "\x1b[0m"})
	if want := "A           B\nlong value  x\n-           \\x1b[0m\n"; w.String() != want {
		t.Errorf("printed\n%s, want\n%s", w.String(), want)
	}
	w.Reset()
	table(&w, false)
	if w.String() != "none\n" {
		t.Errorf("an empty table is %q", w.String())
	}
}

func TestJSONIsOneObjectALineWhateverIsInIt(t *testing.T) {
	var w bytes.Buffer
	table(&w, true, row{"line\nbreak", "\x1b"}, row{"<&>", ""})
	lines := strings.Split(strings.TrimSuffix(w.String(), "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines:\n%s", len(lines), w.String())
	}
	var got row
	if err := json.Unmarshal([]byte(lines[0]), &got); err != nil || got.A != "line\nbreak" {
		t.Errorf("%v, %v", got, err)
	}
	w.Reset()
	if table(&w, true); w.Len() != 0 {
		t.Errorf("an empty list is %q in JSON", w.String())
	}
}

func TestALongTableIsPrintedInPortions(t *testing.T) {
	var w bytes.Buffer
	x := func(int) string { return "x" }
	tab := NewTable(New(&w, false), nil, Column[int]{"N", x}, Column[int]{"M", x})
	for i := range portion {
		if i == portion-1 && w.Len() > 0 {
			t.Error("printed before the portion was full")
		}
		_ = tab.Add(i)
	}
	if w.Len() == 0 {
		t.Error("a full portion is still in memory")
	}
}

func TestDurationsHaveTwoUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1500 * time.Microsecond: "2ms", 42 * time.Second: "42s", 61 * time.Second: "1m01s",
		25*time.Hour + time.Minute: "1d01h", 90 * time.Minute: "1h30m", -time.Minute: "-1m00s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
