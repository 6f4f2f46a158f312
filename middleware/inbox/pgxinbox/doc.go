// Package pgxinbox keeps the inbox's claims in PostgreSQL, through pgx itself
// (github.com/jackc/pgx/v5, 5.12 or later): handlers get a pgx.Tx.
//
// # Guarantee
//
// The effect of one (consumer, key) is committed at most once, together with the
// handler's writes, and survives a crash of the server: the claim's commit is
// synchronous whatever the session's setting. Where the handler reaches past its
// transaction (the pool, another service), it is at least once.
//
// # How
//
// BEGIN and the claim are one round trip: INSERT ... ON CONFLICT (consumer_name,
// message_key) DO NOTHING. The claim also sets, for this transaction only,
// lock_timeout (LockWait; it stays for the handler's statements),
// synchronous_commit and a mark. The mark is gone after any COMMIT or ROLLBACK.
// The proof that it is still there and COMMIT are one string, hence one round
// trip too: the server does not come to COMMIT when the proof fails. After a
// statement that failed nothing more is sent but ROLLBACK.
//
//	processed    BEGIN + claim, the handler's statements, proof + COMMIT    2 trips
//	duplicate    BEGIN + claim, look, ROLLBACK                              3 trips
//	failed       BEGIN + claim, the handler's statements, ROLLBACK          2 trips
//
// In cache modes a connection describes the claim once, in QueryExecModeDescribeExec
// every time: one trip more.
//
// All five exec modes of pgx work. The store uses no session state, so that a
// pooler in transaction mode works where the exec mode suits it
// (QueryExecModeExec, QueryExecModeSimpleProtocol). Tables and rows are those of
// pginbox: both can be used on one database at the same time.
//
// # Smallest use
//
//	pool, err := pgxpool.New(ctx, url)
//	...
//	err = pgxinbox.Migrate(ctx, pool, pgxinbox.Config{})
//	...
//	box, err := pgxinbox.Open(ctx, pool, pgxinbox.Config{})
//	...
//	err = box.Register(ctx, inbox.Consumer{Name: "stock", Queue: "orders.stock"})
//	...
//	out, err := box.Do(ctx, inbox.Claim{Consumer: "stock", Key: id}, func(ctx context.Context) error {
//		tx, err := pgxinbox.Tx(ctx)
//		if err != nil {
//			return err
//		}
//		_, err = tx.Exec(ctx, "UPDATE stock SET n = n - 1 WHERE item = $1", item)
//		return err
//	})
//
// # When it fails
//
//	claim held elsewhere for LockWait      inbox.Later
//	claims table locked by DDL             waits as long as Config.Deadline: the
//	                                       table's lock is taken before the claim
//	                                       can set lock_timeout
//	serialization failure, deadlock        class Transient: the whole Do again
//	server away, standby, no connection    class Down
//	commit without an answer               class Unknown
//	table or privilege missing             class Config
//	handler swallowed an error             *inbox.SwallowedError, not committed
//	handler ended the transaction          inbox.ErrSplit, found out before COMMIT
//	context of a statement ended           pgx closes the connection; nothing is left
//	a table that cannot tell keys apart    Open refuses, one sentence a fault
package pgxinbox
