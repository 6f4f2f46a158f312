// Package sqlstore is what the inbox stores on database/sql share: the guarded
// handle on a claim's transaction, the session with its proof before commit,
// begin, look-ups, split marks, the registry and migrations. What a database
// says in its own words sits in a Dialect.
//
// # Guarantee
//
// A session commits only when the transaction that holds the claims is still
// the open one and no statement of the handler failed unseen. Everything that
// is not certain is an error: wrapped ErrEnded, ErrUnknownCommit or *Swallowed.
//
// # How
//
//	Begin      pin a connection, BEGIN, the dialect's claim statement, Hold
//	Context    a guard in the handler's context; dead once killed
//	Commit     errors the guard saw, the driver's transaction status where it
//	           shows one, the dialect's proof, COMMIT
//	Rollback   the proof first where the guard could not judge a statement, or
//	           where the connection autocommits
//
// # When it fails
//
//	statement would end the transaction   refused, never sent
//	handle used after the handler         error that wraps sql.ErrTxDone
//	proof fails                           inbox.ErrEnded
//	claim held elsewhere for too long     inbox.ErrBusy
//	COMMIT without an answer              inbox.ErrUnknownCommit
package sqlstore
