package sqliteinbox

import (
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

const codeError = sqlite3.SQLITE_ERROR

// code returns SQLite's extended result code; -1 for errors that are not its.
func code(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return -1
	}
	return e.Code()
}

// primary returns the low byte of an extended code.
func primary(c int) int {
	if c < 0 {
		return c
	}
	return c & 0xff
}

func class(err error) inbox.Class {
	if c, ok := sqlstore.Common(err); ok {
		return c
	}
	c := code(err)
	switch c {
	case sqlite3.SQLITE_CONSTRAINT_NOTNULL, sqlite3.SQLITE_CONSTRAINT_CHECK, sqlite3.SQLITE_CONSTRAINT_DATATYPE:
		return inbox.ClassPermanent
	case sqlite3.SQLITE_READONLY_DBMOVED:
		return inbox.ClassConfig
	}
	switch primary(c) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_SCHEMA, sqlite3.SQLITE_PROTOCOL:
		return inbox.ClassTransient
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY:
		return inbox.ClassDown
	case sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH:
		return inbox.ClassPermanent
	case sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return inbox.ClassConfig
	}
	if sqlstore.Lost(err) {
		return inbox.ClassDown
	}
	return inbox.ClassPlain
}

func busy(err error) bool {
	p := primary(code(err))
	return p == sqlite3.SQLITE_BUSY || p == sqlite3.SQLITE_LOCKED
}

// dooms: after these SQLite has undone the whole transaction, or may have. Other
// errors undo their statement only.
func dooms(err error) bool {
	switch primary(code(err)) {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_CORRUPT:
		return true
	}
	return sqlstore.Cancelled(err) || sqlstore.Lost(err)
}

// uncommitted: the driver rolls back when COMMIT fails. Only after an I/O error
// it is not known what reached the disk.
func uncommitted(err error) bool {
	switch primary(code(err)) {
	case -1, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOMEM:
		return false
	}
	return true
}
