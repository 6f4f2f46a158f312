package sqlstore

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Default names.
const (
	DefaultTable  = "processed_messages"
	ConsumerTable = "sekali_consumers"
	KeepingTable  = "sekali_keeping"
	AuditTable    = "sekali_audit"
)

// Table holds the names of the store's tables, quoted, and what the live table
// can do.
type Table struct {
	// Schema and Name as given, not quoted. Schema is "" without one.
	Schema, Name string
	// Claims, Consumers and the rest are quoted and qualified.
	Claims, Consumers, Keeping, Audit string
	// Fingerprint: the claims table has the column.
	Fingerprint bool
}

// ParseTable reads "name" or "schema.name". The registry lives beside it.
func ParseTable(name string, quote func(string) string) (Table, error) {
	if name == "" {
		name = DefaultTable
	}
	t := Table{Name: name, Fingerprint: true}
	if schema, rest, ok := strings.Cut(name, "."); ok {
		t.Schema, t.Name = schema, rest
	}
	for part := range strings.SplitSeq(name, ".") {
		if part == "" || !utf8.ValidString(part) || strings.ContainsRune(part, 0) {
			return t, fmt.Errorf("Table is %q: give a name, or a schema and a name with a dot between", name)
		}
	}
	if strings.Contains(t.Name, ".") {
		return t, fmt.Errorf("Table is %q: at most one dot, between schema and name", name)
	}
	full := func(name string) string {
		if t.Schema == "" {
			return quote(name)
		}
		return quote(t.Schema) + "." + quote(name)
	}
	t.Claims, t.Consumers, t.Keeping, t.Audit = full(t.Name), full(ConsumerTable), full(KeepingTable), full(AuditTable)
	return t, nil
}

// QuoteDouble quotes an identifier as standard SQL does.
func QuoteDouble(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
