package mysqlinbox

import (
	"errors"
	"strconv"

	"github.com/go-sql-driver/mysql"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// DSN returns dsn with what the claim's session needs, for a pool of the inbox's
// own: autocommit off, the isolation level, the lock wait, and a connection that
// finds itself on a read-only server after a failover is given up. Nothing has to
// be set and restored around a transaction then, which saves two round trips a
// message. Unless dsn says otherwise the driver asks the server for its
// max_allowed_packet: a statement beyond it is an error, not a lost connection.
//
// Do not use such a pool for anything but inboxes: what is written on it without
// a transaction is never committed. Uses Config.Isolation and Config.LockWait
// only; give Open the same. The error does not show dsn.
func DSN(dsn string, c Config) (string, error) {
	const op = "make a data source name"
	isolation, err := c.isolation()
	if err != nil {
		return "", inbox.ConfigError(op, err)
	}
	d, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", inbox.ConfigError(op, errors.New("dsn is not of the form user:password@tcp(host:port)/database?param=value"))
	}
	d.RejectReadOnly = true
	if d.MaxAllowedPacket == mysql.NewConfig().MaxAllowedPacket { // the driver's guess
		d.MaxAllowedPacket = 0
	}
	if d.Params == nil {
		d.Params = make(map[string]string)
	}
	// The variable has another name on MySQL 8 and on MariaDB before 11.1; both
	// servers skip the comment that is for the other one.
	d.Params["autocommit"] = "0 /*!80000 , SESSION transaction_isolation = '" + isolation + "' */ /*M!100000 , SESSION tx_isolation = '" + isolation + "' */"
	d.Params["innodb_lock_wait_timeout"] = strconv.Itoa(max(1, c.lockWait()))
	return d.FormatDSN(), nil
}
