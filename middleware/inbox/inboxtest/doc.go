// Package inboxtest tells whether an inbox.Store is right. Any store, also one of
// a third party, runs it against a real database:
//
//	func TestInbox(t *testing.T) {
//		inboxtest.Run(t, inboxtest.Config{Database: newDatabase, FailedStatementDooms: true})
//	}
//
// # What it proves
//
// Every subtest is one property of the store under the engine, named in the
// comment of its func: one effect of many copies, keys compared byte by byte,
// nothing left of a run that failed, a handler that ends the transaction is
// found out, nothing reaches the transaction after its handler.
//
// # How
//
// A Database says how to open inboxes on one real database, as several processes
// would, and how to run a statement inside and outside of a handler's
// transaction. All statements are plain SQL without parameters. There are no
// sleeps: where one party must wait for another, signals or the database tell.
//
// RunFaults does the same under faults of the server and of the network: killed
// backends, restarts, a lost answer to COMMIT. Proxy is a small one for the
// latter; it also counts round trips.
package inboxtest
