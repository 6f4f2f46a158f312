package sqlstore

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// OpenError is what Open and Migrate return when the database did not answer
// as it should. It states the likely fix and never shows a connection string.
func OpenError(op string, d *Dialect, err error) error {
	if _, ok := errors.AsType[*url.Error](err); ok {
		return inbox.ConfigError(op, errors.New("the connection string is not a valid URL: escape special characters of the password (url.QueryEscape)"))
	}
	var told *inbox.Error
	if errors.As(err, &told) && told.Op == op {
		return err
	}
	c := d.Class(err)
	switch {
	case Cancelled(err):
		c, err = inbox.ClassDown, fmt.Errorf("no answer from the database in time: is it running, and is the address right? %w", err)
	case c == inbox.ClassDown:
		err = fmt.Errorf("the database takes no connections: start it, or correct the address: %w", err)
	case c == inbox.ClassConfig:
		err = fmt.Errorf("the database refuses: correct user, password, database name or privileges: %w", err)
	case c == inbox.ClassPlain:
		c = inbox.ClassConfig
	}
	return &inbox.Error{Op: op, Class: c, Err: err}
}

// Faults collects what is wrong with a live table, one sentence each.
type Faults struct {
	table string
	errs  []error
}

// NewFaults of a table, as it is named in the sentences.
func NewFaults(table string) *Faults { return &Faults{table: table} }

// Addf adds a fault: what is wrong, and what to do.
func (f *Faults) Addf(format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf("table %s: %w", f.table, fmt.Errorf(format, args...)))
}

// Err returns all faults at once, nil when there are none. Whoever returns them
// names the operation, once, and the class: Config.
func (f *Faults) Err() error { return errors.Join(f.errs...) }

// Table is its name in the sentences.
func (f *Faults) Table() string { return f.table }
