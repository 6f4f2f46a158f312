// Package pginbox keeps the inbox's claims in PostgreSQL, through database/sql
// with lib/pq or with pgx's adapter. It links neither: users link the driver
// they chose.
//
// # Guarantee
//
// The effect of one (consumer, key) is committed at most once, together with the
// handler's writes, and survives a crash of the server: the claim's commit is
// synchronous whatever the session's setting.
//
// # How
//
// The claim is the first statement: INSERT ... ON CONFLICT (consumer_name,
// message_key) DO NOTHING. It also sets, for this transaction only, lock_timeout
// (LockWait; it stays for the handler's statements), synchronous_commit and a
// mark. The mark is gone after any COMMIT or ROLLBACK, so that one question
// before COMMIT proves that the transaction that holds the claim is the open
// one. No session state is used; a pooler in transaction mode works.
//
// Round trips of a message: BEGIN, the claim, the handler's statements, the
// proof, COMMIT. A handler's statement with arguments is two on lib/pq, and one
// with binary_parameters=yes in the URL (it then sends []byte as binary, which a
// json column does not take).
//
// # Smallest use
//
//	db, err := sql.Open("postgres", url) // or "pgx"
//	...
//	err = pginbox.Migrate(ctx, db, pginbox.Config{})
//	...
//	box, err := pginbox.Open(ctx, db, pginbox.Config{})
//	...
//	err = box.Register(ctx, inbox.Consumer{Name: "stock", Queue: "orders.stock"})
//	...
//	out, err := box.Do(ctx, inbox.Claim{Consumer: "stock", Key: id}, func(ctx context.Context) error {
//		tx, err := inbox.Tx(ctx)
//		if err != nil {
//			return err
//		}
//		_, err = tx.ExecContext(ctx, "UPDATE stock SET n = n - 1 WHERE item = $1", item)
//		return err
//	})
//
// # When it fails
//
//	claim held elsewhere for LockWait    inbox.Later
//	claims table locked by DDL           waits as long as Config.Deadline: the
//	                                     table's lock is taken before the claim
//	                                     can set lock_timeout
//	serialization failure, deadlock      class Transient: the whole Do again
//	server away, standby, no connection  class Down
//	commit without an answer             class Unknown
//	table or privilege missing           class Config
//	a table that cannot tell keys apart  Open refuses, one sentence a fault
//
// At the deadline a statement under way is cancelled. lib/pq does that with a
// request of its own to the server, and goes on waiting for the answer: on a
// network that swallows packets it returns only when the socket does (TCP
// keepalive, tcp_user_timeout). pgx closes the connection and returns at once.
package pginbox
