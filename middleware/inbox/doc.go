// Package inbox runs message handlers inside claims, so that a message takes
// effect once however often it is delivered.
//
// # Guarantee
//
// The claim (consumer, key) and the handler's writes are one transaction: both
// are committed or neither is. Whoever comes with a key that is committed is a
// Duplicate and its handler is not called. Inside that transaction this is
// exactly once; outside it (mails, calls to other services, other databases) a
// handler that fails or whose process dies runs again: at least once, with the
// same key.
//
// # How
//
//	begin; insert the claim; call the handler; prove that the transaction that
//	holds the claim is still the open one; commit synchronously
//
// The claim is the first statement. A copy that comes meanwhile waits for the
// row and then is a Duplicate, or runs if the first one rolled back.
//
// # Smallest use
//
//	box, err := pginbox.Open(ctx, db, pginbox.Config{})
//	...
//	err = box.Register(ctx, inbox.Consumer{Name: "stock", Queue: "orders.stock"})
//	...
//	out, err := box.Do(ctx, inbox.Claim{Consumer: "stock", Key: eventID}, func(ctx context.Context) error {
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
//	before commit          nothing is left; run again
//	commit without answer  class Unknown; run again: the new claim decides
//	claim held elsewhere   Later; run again
//	same key, other body   Conflict; give it to an operator
//	handler ended the tx   ErrSplit; the claim is marked, later copies are Conflicts
//	database down          class Down; hold
//
// The package needs the standard library only. Stores live below it; whoever
// writes one implements Store and runs package inboxtest against it.
package inbox
