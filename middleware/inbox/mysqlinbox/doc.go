// Package mysqlinbox keeps the inbox's claims in MySQL or MariaDB, through
// github.com/go-sql-driver/mysql.
//
// Its tests run on MariaDB 10.11. On MySQL it sends only statements that both
// have, and the tests run these too, but on MariaDB.
//
// # Guarantee
//
// The effect of one (consumer, key) is committed at most once, together with the
// handler's writes, and survives a crash of the server: Open refuses settings
// under which the server may forget a commit.
//
// # How
//
// The claim is the first statement: a plain INSERT. "Duplicate entry" from it,
// and nothing else, says that the key is there. While the transaction is open the
// session does not autocommit: after a deadlock MySQL has no transaction any more,
// and whatever a handler writes then would stay. SAVEPOINT sekali, set after the
// claim and released before COMMIT, proves that the transaction that holds the
// claim is the open one: COMMIT, ROLLBACK, DDL and deadlocks take it away. The
// handle refuses DDL, LOCK TABLES and SET autocommit besides.
//
// LockWait counts in whole seconds, rounded up. On MariaDB it bounds the claim
// only; on MySQL it is the innodb_lock_wait_timeout of the session and holds for
// the handler's statements too.
//
// Round trips of a message, besides the handler's own:
//
//	                       pool opened with DSN   any other pool
//	MariaDB                4                      6
//	MySQL                  5                      7
//
// They are START TRANSACTION, the claim (on MariaDB together with the savepoint),
// the proof and COMMIT. On a pool that others use too the session is set before
// and restored afterwards. Neither multiStatements nor interpolateParams is
// needed, and no parameter of the data source name changes a result.
//
// # Smallest use
//
//	dsn, err := mysqlinbox.DSN("shop:secret@tcp(db:3306)/shop", mysqlinbox.Config{})
//	...
//	db, err := sql.Open("mysql", dsn) // for the inbox only; any other pool works too
//	...
//	err = mysqlinbox.Migrate(ctx, db, mysqlinbox.Config{})
//	...
//	box, err := mysqlinbox.Open(ctx, db, mysqlinbox.Config{})
//	...
//	err = box.Register(ctx, inbox.Consumer{Name: "stock", Queue: "orders.stock"})
//	...
//	out, err := box.Do(ctx, inbox.Claim{Consumer: "stock", Key: id}, func(ctx context.Context) error {
//		tx, err := inbox.Tx(ctx)
//		if err != nil {
//			return err
//		}
//		_, err = tx.ExecContext(ctx, "UPDATE stock SET n = n - 1 WHERE item = ?", item)
//		return err
//	})
//
// Only tables of a transactional engine (InnoDB) take part: what a handler writes
// to a MyISAM, Aria or MEMORY table stays, whatever becomes of the claim.
//
// Where copies of one message wait in several processes and the first one rolls
// back, all but one of the waiting claims become victims of a deadlock: class
// Transient, run again at once by Stack and Handle.
//
// # When it fails
//
//	claim held elsewhere for LockWait       inbox.Later
//	deadlock, lock wait, snapshot conflict  class Transient: the whole Do again
//	handler swallowed a deadlock            not committed; class Transient where
//	                                        the handle saw it
//	server away or read-only                class Down
//	commit without an answer                class Unknown
//	statement over max_allowed_packet       an error of the handler's; a lost
//	                                        connection where the driver does not
//	                                        know the limit (DSN has it asked for,
//	                                        as maxAllowedPacket=0 does)
//	table or privilege missing              class Config
//	DDL or LOCK TABLES past the handle      found before COMMIT, claim marked split
//	a table that cannot tell keys apart, a server that may forget commits
//	                                        Open refuses, one sentence a fault
package mysqlinbox
