package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// writeWait bounds the wait for the queue of writes that are not claims.
const writeWait = time.Minute

// Cancelled tells an error of a context that ended.
func Cancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Lost tells an error that says the connection was refused or lost, whatever
// the driver.
func Lost(err error) bool {
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, errPoolClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.EPIPE) {
		return true
	}
	var op *net.OpError
	var dns *net.DNSError
	if errors.As(err, &op) || errors.As(err, &dns) {
		return true
	}
	// The error of a context also has Timeout, hence it is no net.Error here.
	var other net.Error
	return !Cancelled(err) && errors.As(err, &other)
}

// Common classes what does not depend on the database; ok is false when the
// error says nothing of the kind.
func Common(err error) (c inbox.Class, ok bool) {
	var config *inbox.Error
	switch {
	case err == nil:
		return inbox.ClassPlain, true
	case errors.As(err, &config):
		return config.Class, true
	case errors.Is(err, inbox.ErrUnknownCommit):
		return inbox.ClassUnknown, true
	case errors.Is(err, inbox.ErrBusy):
		return inbox.ClassTransient, true
	case Cancelled(err):
		return inbox.ClassCancelled, true
	}
	return inbox.ClassPlain, false
}

// errPoolClosed is what a closed *sql.DB returns; database/sql does not export
// it.
var errPoolClosed = func() error {
	db := sql.OpenDB(noConnector{})
	_ = db.Close()
	return db.PingContext(context.Background())
}()

type noConnector struct{}

func (noConnector) Connect(context.Context) (driver.Conn, error) { return nil, driver.ErrBadConn }
func (noConnector) Driver() driver.Driver                        { return nil }
