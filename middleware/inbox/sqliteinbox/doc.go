// Package sqliteinbox keeps the inbox's claims in SQLite, through
// modernc.org/sqlite.
//
// # Guarantee
//
// The effect of one (consumer, key) is committed at most once, together with the
// handler's writes, and survives a power failure: Open refuses settings under
// which SQLite may forget a commit.
//
// # How
//
// SQLite has one writer a file. The transactions of a process take turns in
// memory, in order of arrival and across all inboxes on the file; between
// processes the file's lock and busy_timeout decide. The claim is the first
// statement, so the write lock is taken before anything was read. SAVEPOINT
// sekali, set after the claim and released before COMMIT, proves that the
// handler did not end the transaction.
//
// SQLite undoes the whole transaction on its own after some errors: a statement
// that its context interrupted, ON CONFLICT ROLLBACK, RAISE(ROLLBACK), a full
// disk. What the handler sends after that is refused or undone, whatever it went
// through: while a claim is open the inbox has the commit hook and the rollback
// hook of the connection for itself. Behind a driver that hides its connection
// they cannot be set; then what goes past the handle (inbox.SQLTx, prepared
// statements) may stay, and the message is a letter.
//
// # Smallest use
//
//	db, err := sql.Open("sqlite", sqliteinbox.DSN("shop.db"))
//	...
//	err = sqliteinbox.Migrate(ctx, db, sqliteinbox.Config{})
//	...
//	box, err := sqliteinbox.Open(ctx, db, sqliteinbox.Config{})
//	...
//	err = box.Register(ctx, inbox.Consumer{Name: "stock"})
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
// A handler must write through the transaction only: a write through another
// connection waits for the claim's own lock, the full busy_timeout, in vain.
//
// # When it fails
//
//	another process holds the file   inbox.Later after LockWait
//	disk full, I/O error             class Down
//	:memory: with several connections, busy_timeout 0, a journal or
//	synchronous setting that is not durable, a table that cannot tell keys
//	apart                            Open refuses and says what to do
package sqliteinbox
