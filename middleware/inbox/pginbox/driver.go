package pginbox

import (
	"database/sql/driver"
	"reflect"
	"strings"

	"github.com/sekali-mq/sekali/middleware/inbox/internal/postgres"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// driverKind is what the pool's driver does well.
type driverKind uint8

const (
	// binds: arguments cost no round trip of their own (pgx caches statements). Also
	// for drivers that are not known: it is right everywhere.
	binds driverKind = iota
	// literals: a statement with arguments costs a second round trip (lib/pq).
	literals
)

// kindOf a driver's connection, instrumented ones included.
func kindOf(conn any) driverKind {
	if isPQ(unwrap(conn)) {
		return literals
	}
	return binds
}

func (k driverKind) bind() *sqlstore.Binder {
	if k == literals {
		return postgres.Literals()
	}
	return postgres.Parameters()
}

// unwrap looks through connections of instrumenting drivers.
func unwrap(conn any) any {
	for range 4 {
		w, ok := conn.(interface{ Raw() driver.Conn })
		if !ok {
			break
		}
		conn = w.Raw()
	}
	return conn
}

func isPQ(conn any) bool {
	t := reflect.TypeOf(conn)
	return t != nil && t.Kind() == reflect.Pointer && strings.HasSuffix(t.Elem().PkgPath(), "github.com/lib/pq")
}

// txStatus reads the transaction status that the server sent with its last
// answer. It spares a failed transaction the question that the server could only
// answer with an error in its log; it is no proof, so a driver that does not
// show it (0) loses nothing. By reflection, so that users link the driver they
// chose and no other: lib/pq has no method for it, pgx only on its own types.
func txStatus(conn any) byte {
	conn = unwrap(conn)
	v := reflect.ValueOf(conn)
	if isPQ(conn) {
		if f := v.Elem().FieldByName("txnStatus"); f.IsValid() && f.CanUint() {
			return byte(f.Uint()) //nolint:gosec // it is one letter
		}
		return 0
	}
	if !v.IsValid() {
		return 0
	}
	pgx := result(v.MethodByName("Conn"))
	if !pgx.IsValid() {
		return 0
	}
	pgconn := result(pgx.MethodByName("PgConn"))
	if !pgconn.IsValid() {
		return 0
	}
	st := result(pgconn.MethodByName("TxStatus"))
	if !st.IsValid() || !st.CanUint() {
		return 0
	}
	return byte(st.Uint()) //nolint:gosec // it is one letter
}

// result calls a method without arguments and with one result.
func result(m reflect.Value) (none reflect.Value) {
	if !m.IsValid() || m.Type().NumIn() != 0 || m.Type().NumOut() != 1 {
		return none
	}
	return m.Call(nil)[0]
}
