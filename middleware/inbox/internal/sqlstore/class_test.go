package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// What says that a connection is lost is known by type or value, wrapped or not;
// the end of a context is not taken for it.
func TestLost(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	_, refused := net.Dial("tcp", addr)
	db := sql.OpenDB(noConnector{})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, sql.ErrConnDone, refused, db.PingContext(t.Context())} {
		if !Lost(err) || !Lost(fmt.Errorf("wrapped: %w", err)) {
			t.Errorf("%v is not taken for a lost connection", err)
		}
	}
	for _, err := range []error{nil, context.Canceled, context.DeadlineExceeded, errors.New("no"), sql.ErrNoRows, sql.ErrTxDone} {
		if Lost(err) {
			t.Errorf("%v is taken for a lost connection", err)
		}
	}
}

func TestCommonClasses(t *testing.T) {
	for _, c := range []struct {
		err  error
		want inbox.Class
		ok   bool
	}{
		{nil, inbox.ClassPlain, true},
		{errors.New("no"), inbox.ClassPlain, false},
		{fmt.Errorf("x: %w", context.Canceled), inbox.ClassCancelled, true},
		{context.DeadlineExceeded, inbox.ClassCancelled, true},
		{fmt.Errorf("%w: %w", inbox.ErrUnknownCommit, io.EOF), inbox.ClassUnknown, true},
		{fmt.Errorf("%w: x", inbox.ErrBusy), inbox.ClassTransient, true},
		{fmt.Errorf("x: %w", inbox.Configf("op", "no")), inbox.ClassConfig, true},
	} {
		if got, ok := Common(c.err); got != c.want || ok != c.ok {
			t.Errorf("%v: %s, %v; want %s, %v", c.err, got, ok, c.want, c.ok)
		}
	}
}
