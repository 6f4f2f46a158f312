package postgres

import (
	"errors"
	"strings"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// SQLSTATEs that are told apart.
const (
	LockNotAvailable    = "55P03"
	InFailedTransaction = "25P02"

	noActiveTransaction = "25P01"
	unknownSavepoint    = "3B001"
)

// NoSavepoint is sqlstore.Dialect's.
func NoSavepoint(err error) bool {
	st := SQLState(err)
	return st == noActiveTransaction || st == unknownSavepoint
}

// SQLState returns the SQLSTATE that the server sent; both drivers' errors have
// the method. "" when the error is not the server's.
func SQLState(err error) string {
	var e interface {
		error
		SQLState() string
	}
	if !errors.As(err, &e) {
		return ""
	}
	return e.SQLState()
}

// classes by SQLSTATE, then by its first two characters.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
var classes = map[string]inbox.Class{
	"40":    inbox.ClassTransient, // serialization, deadlock
	"40002": inbox.ClassPlain,     // a deferred constraint
	"40003": inbox.ClassUnknown,   // statement completion unknown
	"55P03": inbox.ClassTransient, // lock_timeout
	"57014": inbox.ClassPlain,     // statement_timeout: the same handler would exceed it again; a context's end is seen before
	"25P03": inbox.ClassPlain,     // idle_in_transaction_session_timeout, likewise
	"25P04": inbox.ClassPlain,     // transaction_timeout, likewise

	"08":    inbox.ClassDown, // connection
	"53":    inbox.ClassDown, // disk full, out of memory, too many connections
	"57P01": inbox.ClassDown, // shutdown
	"57P02": inbox.ClassDown, // crash
	"57P03": inbox.ClassDown, // starting up
	"57P05": inbox.ClassDown, // idle_session_timeout
	"58":    inbox.ClassDown, // system error
	"25006": inbox.ClassDown, // read-only: a failover is under way

	"22":    inbox.ClassPermanent, // data
	"23502": inbox.ClassPermanent, // not null
	"23514": inbox.ClassPermanent, // check

	"28":    inbox.ClassConfig, // who are you
	"3D":    inbox.ClassConfig, // no such database
	"3F":    inbox.ClassConfig, // no such schema
	"57P04": inbox.ClassConfig, // database dropped
	"42P01": inbox.ClassConfig, // no such table
	"42703": inbox.ClassConfig, // no such column
	"42704": inbox.ClassConfig, // no such object
	"42883": inbox.ClassConfig, // no such function
	"42501": inbox.ClassConfig, // privilege
	"42P10": inbox.ClassConfig, // no unique key for ON CONFLICT
}

// Class is the store's Class, for the errors of every driver.
func Class(err error) inbox.Class {
	if c, ok := sqlstore.Common(err); ok {
		return c
	}
	state := SQLState(err)
	if c, ok := classes[state]; ok {
		return c
	}
	if len(state) == 5 {
		return classes[state[:2]] // Plain when it is not there
	}
	if _, ok := broken(err); ok || sqlstore.Lost(err) {
		return inbox.ClassDown
	}
	return inbox.ClassPlain
}

// broken finds pgx's own errors of a connection: they, and no others, tell
// whether the statement can be sent again.
func broken(err error) (safe, ok bool) {
	var e interface {
		error
		SafeToRetry() bool
	}
	if !errors.As(err, &e) {
		return false, false
	}
	return e.SafeToRetry(), true
}

// Uncommitted tells whether the server itself said that COMMIT did nothing, or
// never got it. A server that shuts down in that moment may have committed.
func Uncommitted(err error) bool {
	state := SQLState(err)
	switch {
	case state == "":
		safe, _ := broken(err)
		return safe // nothing was sent
	case state == "40003", strings.HasPrefix(state, "57P"), strings.HasPrefix(state, "08"):
		return false
	}
	return true
}
