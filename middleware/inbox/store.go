package inbox

import (
	"context"
	"time"
)

// BeginOptions are the bounds of one Begin.
type BeginOptions struct {
	// LockWait bounds the wait for a claim that another transaction holds.
	LockWait time.Duration
	// Wait bounds every other wait of the store: for its turn, for Lock, and the
	// lock waits of the handlers' statements where it sets a limit to them. 0 is
	// LockWait.
	Wait time.Duration
	// Lock names what is to be locked until the transaction ends, before the claims
	// are inserted: a consumer of the registry, or any name where the database has
	// locks by name. "" is nothing. A store with one writer may ignore it.
	Lock string
	// LockMode tells how. A store without shared locks may ignore all but LockAlone.
	LockMode LockMode
}

// LockMode is how a transaction locks a name.
type LockMode uint8

const (
	// LockAlone: nobody else has the lock meanwhile.
	LockAlone LockMode = iota
	// LockShared: others may share it; only whoever has it alone is waited for.
	LockShared
	// LockYielding is LockShared, but LockAlone where somebody has the lock alone or
	// waits for it; Yielding tells which it was.
	LockYielding
)

// Store is implemented per database. It knows SQL and error numbers, nothing of
// handlers, retries or brokers. Users never hold one: the Open function of each
// store returns an *Inbox. Package inboxtest tells whether a Store is right.
//
// All methods must be safe for concurrent use. Keys arrive in their stored form
// (StoredKey) and must be compared byte by byte.
type Store interface {
	// Keeper serves the operator.
	Keeper

	// Begin opens a transaction and, as its first statement, inserts all claims,
	// in key order. It must cost no more than BEGIN and INSERT when all are new;
	// rows that exist are read only then. Records come back in the order of cs.
	// New ones carry ProcessedAt where the insert returns it without another trip.
	// cs may be empty: the transaction then holds no claim, all else is alike.
	// "Nothing inserted" must mean that the key is already there and nothing
	// else: every other failure is an error.
	//
	// ctx bounds the whole transaction, not only the call: when it ends, the
	// transaction must be rolled back. A claim that is held elsewhere for longer
	// than LockWait must give an error that wraps ErrBusy. On any error nothing
	// is left open.
	Begin(ctx context.Context, cs []Claim, o BeginOptions) (Session, []Record, error)

	// Lookup reads committed claims and their consumers' horizons in one
	// statement, so that a purge between two reads cannot make a processed key
	// look new. Records come back in the order of cs.
	Lookup(ctx context.Context, cs []Claim) ([]Record, error)

	// Split marks those of split that are in the table with SplitMark, in a
	// transaction of its own. Of drop, claims as Begin inserted them, it deletes
	// those that are still that insertion (by ProcessedAt), and marks what else is
	// there under their keys: whose it is, is not known.
	Split(ctx context.Context, split []Claim, drop []Record) error

	// Register inserts the consumer's row if there is none, with the database's
	// clock as Horizon, and returns the row as it then is. It must not change an
	// existing row.
	Register(ctx context.Context, c Consumer) (Consumer, error)

	// Consumer reads the registry row; ok is false when there is none.
	Consumer(ctx context.Context, name string) (c Consumer, ok bool, err error)

	// Class tells what may be done about an error of this database or of its
	// driver, wrapped or not. Plain for errors it does not know.
	Class(err error) Class
}

// Overlapping is implemented by a Store on which a group of a consumer may begin
// while the one before it commits, and beside one that is slow: each of its
// statements sees what was committed by the time it runs.
type Overlapping interface {
	// Overlaps is asked once a group.
	Overlaps() bool
}

func overlaps(s Store) bool {
	o, ok := s.(Overlapping)
	return ok && o.Overlaps()
}

// Yielding is implemented by a Session whose store has shared locks.
type Yielding interface {
	// Yielded tells whether a lock that was asked for as LockYielding was taken alone.
	Yielded() bool
}

func yielded(s Session) bool {
	y, ok := s.(Yielding)
	return ok && y.Yielded()
}

// Session is one open transaction that holds claims. It is used by one
// goroutine at a time.
type Session interface {
	// Context returns a context in which Tx (or the store's own Tx) gives a
	// guarded handle on the transaction, and a func that kills the handle: after
	// it returned, no statement can reach the transaction through it.
	Context(ctx context.Context) (context.Context, func())

	// Check tells whether the handler that used the last Context left the
	// transaction as it must be: nil; a *SwallowedError when it dooms the
	// transaction; ErrEnded (wrapped) when the claims' transaction is no longer the
	// open one; or why it cannot be used. It asks the server only where the handle
	// could not judge what the handler did. After nil the session is ready for the
	// next handler.
	Check(ctx context.Context) error

	// Clean tells whether no statement was sent since Begin, or since the last Check
	// or RollbackTo that succeeded.
	Clean() bool

	// Savepoint marks where the next handler begins.
	Savepoint(ctx context.Context) error

	// RollbackTo undoes everything since the last Savepoint, and makes the session
	// ready for the next handler. ErrEnded (wrapped) when the savepoint is gone
	// because the handler ended the transaction; the database's own error when that
	// undid it.
	RollbackTo(ctx context.Context) error

	// Undo deletes claims that this session inserted, and nothing else. It is an
	// error when they are not all there.
	Undo(ctx context.Context, cs ...Claim) error

	// Commit proves that the transaction that holds the claims is still the open
	// one, then commits it synchronously. ErrEnded (wrapped) when it is not. An
	// error seen by the handle that dooms the transaction and that no ROLLBACK TO
	// undid must be returned without a commit, as a *SwallowedError. After any error
	// the transaction is gone. An error from the COMMIT itself must wrap
	// ErrUnknownCommit unless the server said that it did not commit.
	Commit(ctx context.Context) error

	// Rollback ends the transaction. Where the handle could not judge what the
	// handler did (a raw transaction, several statements in one string), it first
	// asks the server and returns ErrEnded (wrapped) when the claim's transaction
	// is no longer the open one. Another error must say that the connection was
	// lost, and nil that it was not, as far as the driver tells: an error of the
	// handler that looks like an outage is one only then. The transaction is gone
	// either way.
	Rollback(ctx context.Context) error
}

// SwallowedError is the error of a handler that returned nil although a statement of
// its transaction had failed.
type SwallowedError struct{ Err error }

// Error says what to do about it.
func (s *SwallowedError) Error() string {
	return "handler swallowed an error of its transaction (return it, or ROLLBACK TO SAVEPOINT before going on): " + s.Err.Error()
}

// Unwrap gives the swallowed error.
func (s *SwallowedError) Unwrap() error { return s.Err }

// rollbackTimeout bounds the clean-up after a failed run, which must not
// depend on the run's own context.
const rollbackTimeout = 5 * time.Second
