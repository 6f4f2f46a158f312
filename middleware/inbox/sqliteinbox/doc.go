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
