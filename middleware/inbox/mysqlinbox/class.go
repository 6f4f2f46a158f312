package mysqlinbox

import (
	"errors"

	"github.com/go-sql-driver/mysql"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// Numbers that the store itself acts on.
// https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html
// https://mariadb.com/kb/en/mariadb-error-codes/
const (
	duplicateEntry    = 1062
	lockWaitTimeout   = 1205
	deadlock          = 1213
	lockTableFull     = 1206
	snapshotConflict  = 1020
	noSuchSavepoint   = 1305
	noSuchTable       = 1146
	readOnlyOption    = 1290
	readOnlyTx        = 1792
	readOnlyMode      = 1836
	groupRolledBack   = 3101 // group replication
	groupHookRefused  = 3100
	lockNoWait        = 3572
	privilegeOfTable  = 1142
	privilegeOfColumn = 1143
)

// number of the server's error; 0 when the error is not the server's.
func number(err error) uint16 {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return 0
	}
	return e.Number
}

// classes by number. What is not here is judged by the first two characters of
// the SQLSTATE that came with it.
var classes = map[uint16]inbox.Class{
	deadlock:         inbox.ClassTransient,
	lockWaitTimeout:  inbox.ClassTransient,
	snapshotConflict: inbox.ClassTransient, // MariaDB: the row changed since the snapshot
	lockTableFull:    inbox.ClassTransient,
	groupRolledBack:  inbox.ClassTransient,
	groupHookRefused: inbox.ClassTransient,
	1317:             inbox.ClassTransient, // KILL QUERY; a context's end is seen before
	1412:             inbox.ClassTransient, // table definition changed
	1637:             inbox.ClassTransient, // too many open transactions
	1689:             inbox.ClassTransient, // a waiting lock of the table was given up
	1969:             inbox.ClassTransient, // MariaDB: max_statement_time
	3024:             inbox.ClassTransient, // MySQL: max_execution_time
	lockNoWait:       inbox.ClassTransient,

	1021: inbox.ClassDown, // disk full
	1026: inbox.ClassDown, // error on write
	1030: inbox.ClassDown, // error of the engine
	1037: inbox.ClassDown, // out of memory
	1040: inbox.ClassDown, // too many connections
	1041: inbox.ClassDown, // out of memory
	1047: inbox.ClassDown, // Galera: the node is not ready
	1053: inbox.ClassDown, // shutdown
	1077: inbox.ClassDown, // shutdown
	1079: inbox.ClassDown, // shutdown
	1080: inbox.ClassDown, // connection forced to close
	1114: inbox.ClassDown, // table or disk full
	1129: inbox.ClassDown, // host blocked
	1135: inbox.ClassDown, // no more threads
	1152: inbox.ClassDown, // connection aborted
	1158: inbox.ClassDown, // network
	1159: inbox.ClassDown, // network
	1160: inbox.ClassDown, // network
	1161: inbox.ClassDown, // network
	1180: inbox.ClassDown, // error during COMMIT
	1184: inbox.ClassDown, // connection aborted
	1203: inbox.ClassDown, // too many connections of the user
	1226: inbox.ClassDown, // a limit of the user
	1927: inbox.ClassDown, // MariaDB: connection killed
	3032: inbox.ClassDown, // offline mode
	3168: inbox.ClassDown, // server is not available
	3169: inbox.ClassDown, // MySQL: session killed
	4031: inbox.ClassDown, // MySQL: disconnected after idle time

	readOnlyOption: inbox.ClassDown, // read-only: a failover is under way
	readOnlyTx:     inbox.ClassDown,
	readOnlyMode:   inbox.ClassDown,

	1048: inbox.ClassPermanent, // not null
	1153: inbox.ClassPermanent, // larger than max_allowed_packet; the connection is gone, too
	1264: inbox.ClassPermanent, // out of range
	1265: inbox.ClassPermanent, // truncated
	1292: inbox.ClassPermanent, // wrong value
	1300: inbox.ClassPermanent, // not UTF-8
	1364: inbox.ClassPermanent, // no value for a column
	1365: inbox.ClassPermanent, // division by zero
	1366: inbox.ClassPermanent, // wrong value
	1367: inbox.ClassPermanent, // illegal value
	1406: inbox.ClassPermanent, // too long
	1411: inbox.ClassPermanent, // wrong value
	1441: inbox.ClassPermanent, // out of range
	1690: inbox.ClassPermanent, // out of range
	1977: inbox.ClassPermanent, // MariaDB: a character that cannot be stored
	3140: inbox.ClassPermanent, // MySQL: not JSON
	3819: inbox.ClassPermanent, // MySQL: check constraint
	4025: inbox.ClassPermanent, // MariaDB: check constraint

	1044:              inbox.ClassConfig, // privilege of the database
	1045:              inbox.ClassConfig, // password
	1046:              inbox.ClassConfig, // no database chosen
	1049:              inbox.ClassConfig, // no such database
	1054:              inbox.ClassConfig, // no such column
	1109:              inbox.ClassConfig, // no such table
	1130:              inbox.ClassConfig, // host may not connect
	privilegeOfTable:  inbox.ClassConfig,
	privilegeOfColumn: inbox.ClassConfig,
	noSuchTable:       inbox.ClassConfig,
	1227:              inbox.ClassConfig, // privilege
	1251:              inbox.ClassConfig, // authentication
	noSuchSavepoint:   inbox.ClassConfig, // no such function or procedure
	1370:              inbox.ClassConfig, // privilege of a routine
	1665:              inbox.ClassConfig, // binlog_format STATEMENT
	1698:              inbox.ClassConfig, // password
	1820:              inbox.ClassConfig, // password expired
	1862:              inbox.ClassConfig, // password expired
	3118:              inbox.ClassConfig, // account locked
}

var states = map[string]inbox.Class{
	"08": inbox.ClassDown,
	"22": inbox.ClassPermanent,
	"28": inbox.ClassConfig,
	"40": inbox.ClassTransient,
}

func class(err error) inbox.Class {
	if c, ok := sqlstore.Common(err); ok {
		return c
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		if c, ok := classes[e.Number]; ok {
			return c
		}
		return states[string(e.SQLState[:2])] // Plain when it is not there
	}
	switch {
	case errors.Is(err, mysql.ErrPktTooLarge):
		return inbox.ClassPermanent
	case muddled(err):
		return inbox.ClassPlain
	case lost(err):
		return inbox.ClassDown
	}
	return inbox.ClassPlain
}

// muddled: the handler left a result unread and went on; the driver then gives
// the connection up. The handler's fault, not an outage.
func muddled(err error) bool {
	return errors.Is(err, mysql.ErrBusyBuffer) || errors.Is(err, mysql.ErrPktSync) || errors.Is(err, mysql.ErrPktSyncMul)
}

func lost(err error) bool {
	return errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, mysql.ErrMalformPkt) || sqlstore.Lost(err)
}

// gone: after these the server has rolled the whole transaction back, and what
// follows would run in another one. Other errors undo their statement only.
func (s settings) gone(err error) bool {
	switch number(err) {
	case deadlock, lockTableFull, snapshotConflict, groupRolledBack:
		return true
	case lockWaitTimeout:
		return s.rollbackOnTimeout
	}
	return false
}

// dooms tells whether nothing may be committed after this error.
func (s settings) dooms(err error) bool {
	return s.gone(err) || muddled(err) || lost(err) || sqlstore.Cancelled(err)
}

// uncommitted: the server itself said that it did not commit. Any other error
// of COMMIT leaves that open.
func uncommitted(err error) bool {
	switch number(err) {
	case deadlock, lockWaitTimeout, snapshotConflict, groupRolledBack, groupHookRefused, readOnlyOption, readOnlyTx, readOnlyMode:
		return true
	}
	return false
}
