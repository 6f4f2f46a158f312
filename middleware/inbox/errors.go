package inbox

import (
	"errors"
	"fmt"
	"time"
)

// Class groups errors by what may be done about them. Stores derive it from
// SQLSTATE or error number through errors.As, never from text.
type Class uint8

const (
	// ClassPlain: any other error of a handler, foreign keys and unique violations
	// included. Retried with delay within the bounded attempts, then a letter.
	ClassPlain Class = iota
	// ClassTransient: the database undid the transaction (serialization, deadlock,
	// lock wait); the whole transaction is run again. A wait, not an attempt.
	ClassTransient
	// ClassUnknown: a commit without an answer. A new claim decides; the handler is
	// never run again without one.
	ClassUnknown
	// ClassDown: the store cannot be reached or takes no work. Deliveries are held.
	ClassDown
	// ClassCancelled: the caller's context ended. The delivery goes back.
	ClassCancelled
	// ClassPermanent: no retry can help (bad data, Permanent). A letter.
	ClassPermanent
	// ClassConfig: the set-up is wrong (missing table, privilege, wrong store). The
	// delivery is held and nothing is dead-lettered.
	ClassConfig
)

// String gives the word used in logs.
func (c Class) String() string {
	switch c {
	case ClassPlain:
		return "plain"
	case ClassTransient:
		return "transient"
	case ClassUnknown:
		return "unknown"
	case ClassDown:
		return "down"
	case ClassCancelled:
		return "cancelled"
	case ClassPermanent:
		return "permanent"
	case ClassConfig:
		return "config"
	}
	return "plain"
}

var (
	// ErrNoKey: no source of the key rule gave a key.
	ErrNoKey = errors.New("message has no idempotency key: send an event_id header or a message id, or choose a business key")
	// ErrConflict: the key was already processed with other content.
	ErrConflict = errors.New("key was already processed with other content: the producer used one key for two messages")
	// ErrSplit: the claim was committed without (all of) its writes, because a
	// handler ended the transaction itself.
	ErrSplit = errors.New("claim was committed apart from its writes: a handler ended the claim's transaction; find out what it wrote before replaying")
	// ErrBusy: another transaction holds the claim. Stores return it from Begin.
	ErrBusy = errors.New("claim is held by another transaction")
	// ErrEnded: the transaction that holds the claim is no longer the open one.
	// Stores return it from Commit and Rollback.
	ErrEnded = errors.New("handler ended the claim's transaction: use no COMMIT, ROLLBACK or BEGIN inside a handler")
	// ErrDoubt: it could not be found out whether the handler had committed its
	// claim's transaction itself. Stores return it from Commit and Rollback; the
	// engine remembers the claim and settles the doubt at its next copy.
	ErrDoubt = errors.New("it is not known whether the handler committed its claim's transaction itself: the database went away before it could be asked")
	// ErrUnknownCommit: a COMMIT was sent and not answered. Stores return it from
	// Session.Commit; the claim of a new transaction decides what became of it.
	ErrUnknownCommit = errors.New("commit was sent, its answer was lost")
	// ErrNoTx: the context carries no claim's transaction.
	ErrNoTx        = errors.New("no claim's transaction in this context: pass on the context that the handler was given")
	errOtherHandle = errors.New("this inbox gives another handle: use the Tx function of its own package (pgxinbox.Tx)")
	// ErrNotRegistered: the consumer has no registry row.
	ErrNotRegistered = errors.New("consumer is not registered: call Inbox.Register (or Stack.Register) before the first message")

	// Skip is an instruction. From a Key: acknowledged, no claim, the handler is
	// not called. From a handler: rolled back, acknowledged.
	Skip = errors.New("skip this message") //nolint:errname,staticcheck // an instruction to the stack, not a failure
)

// Error is what Do returns: the operation, the claim, the class and the cause.
type Error struct {
	Op    string
	Claim Claim
	Class Class
	// Claimed: the claim was held when it happened. What the handler did is undone
	// then, and the fault may be this message's alone; before the claim a Down or
	// Config is everybody's.
	Claimed bool
	// ClaimedAt is the database's time at which the failed run held the claim;
	// zero where it held none or the store does not tell. It proves that the key
	// was not processed before.
	ClaimedAt time.Time
	Err       error
}

// Error names the operation and the claim before the cause.
func (e *Error) Error() string {
	if e.Claim.Consumer == "" && e.Claim.Key == "" {
		return e.Op + ": " + e.Err.Error()
	}
	return e.Op + " " + e.Claim.String() + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf tells the class of an error that came from Do. ClassPlain for errors that
// did not, nil included; instructions are recognised wherever they come from.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	if isPermanent(err) {
		return ClassPermanent
	}
	return ClassPlain
}

type permanentError struct{ err error }

func (p *permanentError) Error() string { return p.err.Error() }
func (p *permanentError) Unwrap() error { return p.err }

// Permanent marks an error of a handler that no retry can help: the message
// becomes a letter after this attempt. Survives wrapping with %w. Nil stays nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err: err}
}

type retryAfterError struct {
	err   error
	delay time.Duration
}

func (r *retryAfterError) Error() string { return r.err.Error() }
func (r *retryAfterError) Unwrap() error { return r.err }

// RetryAfter marks an error of a handler that should be retried after d, still
// within the bounded attempts. Where neither the in-place bound nor a delayed
// retry allows such a wait, the message becomes a letter that says so. Nil
// stays nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err: err, delay: max(d, 0)}
}

// retryDelay returns the wait that a handler asked for.
func retryDelay(err error) (time.Duration, bool) {
	if r, ok := errors.AsType[*retryAfterError](err); ok {
		return r.delay, true
	}
	return 0, false
}

// ConfigError makes an error of class Config. For stores and middleware: the
// text must say what to do.
func ConfigError(op string, err error) error {
	return &Error{Op: op, Class: ClassConfig, Err: err}
}

// Configf is ConfigError with a format; %w works.
func Configf(op, format string, args ...any) error {
	return ConfigError(op, fmt.Errorf(format, args...))
}

func isPermanent(err error) bool {
	_, ok := errors.AsType[*permanentError](err)
	return ok
}
