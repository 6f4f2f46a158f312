package sqlstore

import "strings"

// Keeping says in a database's own words what the keeper needs. Times are
// microseconds since 1970, UTC, on the way in and out.
type Keeping struct {
	// Now is the database's clock.
	Now string
	// Micros reads a column of our own tables that holds a time.
	Micros func(column string) string
	// Time makes such a column's value of an expression in microseconds.
	Time func(micros string) string
	// ProcessedAt reads a claim's time.
	ProcessedAt func(column string) string
	// Latest reads the latest moment at which a claim may have been made, where an
	// adopted table does not tell it well. Defaults to ProcessedAt.
	Latest func(column string) string
	// Text reads a text whole, whatever the connection's character set. Defaults to
	// nil: as it is.
	Text func(column string) string
	// Among is the condition that a column is one of keys, at most KeyStep of them.
	Among func(b *Binder, column string, keys []string) string

	// ForUpdate ends a SELECT that locks its rows, and TryForUpdate one that does not
	// wait: it gives no row, or an error that Locked knows. Both may be "" where Touch
	// locks.
	ForUpdate, TryForUpdate string
	// Locked tells that error. Defaults to nil: there is none.
	Locked func(err error) bool
	// Touch makes a statement that changes nothing and takes the database's write lock
	// as the first one of a transaction. Defaults to nil: none is needed.
	Touch func(t Table) string
}

// KeyStep is how many keys one statement names. MariaDB turns a list of 1000 into a
// join.
const KeyStep = 500

func (k Keeping) text(column string) string {
	if k.Text == nil {
		return column
	}
	return k.Text(column)
}

func (k Keeping) latest(column string) string {
	if k.Latest == nil {
		return k.ProcessedAt(column)
	}
	return k.Latest(column)
}

// Consumers makes the SELECT of all rows of the registry, or of one with its name.
func (k Keeping) Consumers(b *Binder, t Table, name ...string) string {
	columns := make([]string, 0, 10)
	for _, c := range []string{"name", "service", "queue", "key_rule", "mode"} {
		columns = append(columns, k.text("r."+c))
	}
	columns = append(columns, k.Micros("r.horizon"), k.text("r.former_names"), k.Micros("h.held_since"), k.text("h.held_by"), k.text("h.held_why"))
	query := "SELECT " + strings.Join(columns, ", ") + " FROM " + t.Consumers + " r LEFT JOIN " + t.Keeping + " h ON h.consumer_name = r.name"
	if len(name) > 0 {
		return query + " WHERE r.name = " + b.Text(name[0])
	}
	return query + " ORDER BY r.name"
}

// IsIn is an Among for lists of values.
func IsIn(b *Binder, column string, keys []string) string {
	return column + " IN (" + Join(keys, ", ", func(_ int, key string) string { return b.Text(key) }) + ")"
}
