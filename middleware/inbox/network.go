package inbox

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
)

// network tells an error of a connection that does not say whose: drivers of
// databases, HTTP clients and the like all return these.
func network(err error) bool {
	for _, e := range []error{driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	// pgx's errors of a connection in wrong hands ("conn busy") have this method.
	_, ok := errors.AsType[interface {
		error
		SafeToRetry() bool
	}](err)
	return ok
}
