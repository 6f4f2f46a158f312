package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Dialect says in a database's own words what the store needs. All fields are
// required unless they say otherwise.
type Dialect struct {
	// Grammar judges the handler's statements.
	Grammar Grammar
	// Bind starts the arguments of one statement.
	Bind func() *Binder

	// Insert makes the claim statement. For every claim that it inserted it
	// returns a row (consumer_name, message_key, processed_at in microseconds), in
	// any order; claims that are there already give none. It must insert in the
	// order of cs. With no claims it must still do what Prove needs, or be "".
	Insert func(b *Binder, t Table, cs []inbox.Claim, wait time.Duration) string
	// Claim runs the claim where one statement is not enough to tell (MySQL). It
	// returns the inserted ones. Defaults to nil: Insert is run.
	Claim func(ctx context.Context, tx *sql.Tx, t Table, cs []inbox.Claim, wait time.Duration) ([]Inserted, error)
	// Lookup makes one statement that returns a row for every claim: its index in
	// cs, 1 when the row exists, the fingerprint, processed_at, its age, and the
	// consumer's horizon, times and ages in microseconds.
	Lookup func(b *Binder, t Table, cs []inbox.Claim) string
	// Split makes an UPDATE that sets the fingerprint of the claims to mark.
	Split func(b *Binder, t Table, cs []inbox.Claim, mark []byte) string
	// Register makes an INSERT of the consumer that does nothing when the name is
	// there, or fails with an error that Duplicate knows.
	Register func(b *Binder, t Table, c inbox.Consumer, formerNames string) string
	// Duplicate tells the error of a Register that found the name. Defaults to nil:
	// none.
	Duplicate func(err error) bool
	// Keeping is for the registry and for what operators do.
	Keeping Keeping

	// WaitByContext bounds the claim statement by a context, for databases that
	// have no lock timeout of their own to set with it.
	WaitByContext bool

	// Enter waits for the turn to have a transaction open, at most wait. Defaults
	// to nil: no queue.
	Enter func(ctx context.Context, wait time.Duration) (leave func(), err error)
	// Pin prepares a connection before BEGIN. Defaults to nil: nothing to prepare.
	// Not called when the user begins.
	Pin func(ctx context.Context, c *sql.Conn) (Pinned, error)
	// Autocommits: when the database has given a transaction up, a connection that
	// Pin did not prepare commits what follows statement by statement.
	Autocommits bool
	// Hold is run after the claim for the sake of Prove. Defaults to "": nothing.
	Hold string
	// Renew sets anew what Prove used up. Defaults to "": nothing.
	Renew string
	// Lock makes a statement that locks a name until the transaction ends, and waits
	// for it at most wait; "" is that it need not. It returns a row: whether a lock
	// was taken alone that was asked for as inbox.LockYielding. Defaults to nil: there
	// is one writer anyway.
	Lock func(b *Binder, t Table, name string, mode inbox.LockMode, wait time.Duration) string
	// Several statements in one string each give their result, with no argument bound.
	// Defaults to false: each is sent for itself.
	Several bool
	// Limit makes a statement that bounds the lock waits of what follows in the
	// transaction. Defaults to nil: the claim sets no limit that stays.
	Limit func(b *Binder, wait time.Duration) string
	// NoSavepoint tells the error of a ROLLBACK TO a savepoint that is gone with its
	// transaction.
	NoSavepoint func(err error) bool
	// Prove returns nil when the transaction that holds the claim is the open one,
	// an error that wraps inbox.ErrEnded when it is not, and an *inbox.SwallowedError
	// when it turns out to have failed.
	Prove func(ctx context.Context, tx *sql.Tx) error
	// Status reads the transaction status that the driver's connection keeps, as
	// the letters of the PostgreSQL protocol: 'I' idle, 'T' open, 'E' failed; 0
	// when it does not show. Defaults to nil: never looked at.
	Status func(driverConn any) byte
	// OneResult: the driver gives the connection up, as if it had been lost, when a
	// statement is sent while a result is open. Such statements are refused.
	OneResult bool
	// ReadTx runs look-ups in a transaction of their own, for connections that
	// do not autocommit.
	ReadTx bool

	// Class is the store's Class.
	Class func(err error) inbox.Class
	// Busy tells whether the claim statement failed because another transaction
	// holds the claim.
	Busy func(err error) bool
	// Dooms tells whether an error of a handler's statement means that the
	// transaction must not be committed unless a ROLLBACK TO undoes it.
	Dooms func(err error) bool
	// Aborted tells whether after this error the server refuses every statement
	// but ROLLBACK TO. Defaults to nil: no error does.
	Aborted func(err error) bool
	// Gone tells whether after this error the transaction is no more, so that no
	// ROLLBACK TO can help and nothing may be sent. Defaults to nil: no error does.
	Gone func(err error) bool
	// Undone asks, after an error on a connection that autocommits, whether the
	// transaction is no more. Defaults to nil: Gone tells.
	Undone func(ctx context.Context, tx *sql.Tx) bool
	// Uncommitted tells whether an error of COMMIT says that nothing was
	// committed.
	Uncommitted func(err error) bool
}

// Pinned is a connection that was prepared for a claim's transaction: whatever
// the handler sends after the database gave that one up is undone too.
type Pinned struct {
	// Restore undoes the preparation. Nil: nothing was done.
	Restore func(ctx context.Context) error
	// Anytime: Restore commits nothing, even while the transaction is open.
	Anytime bool
	// Gone tells whether the transaction was undone. Defaults to nil: it does not
	// show.
	Gone func() bool
}

// Inserted is a claim that the claim statement inserted.
type Inserted struct {
	Consumer, Key string
	// ProcessedAt by the database's clock; zero when the statement does not tell.
	ProcessedAt time.Time
}
