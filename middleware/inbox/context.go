package inbox

import (
	"context"
	"database/sql"
	"sync/atomic"
)

// DBTX is the handle on a claim's transaction, as database/sql, sqlc, GORM and
// bun know it. It refuses statements that would end the transaction.
type DBTX interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

type (
	txKey       struct{}
	rawKey      struct{}
	scopeKey    struct{}
	consumerKey struct{}
	attemptKey  struct{}
	claimedKey  struct{}
	setKey      struct{}
	detachedKey struct{}
)

// scope is what Do puts into the context of a handler.
type scope struct {
	inbox *Inbox
	claim Claim
	outer *scope // of the inbox whose handler called this one

	grouped    bool        // the transaction is shared
	wantsAlone atomic.Bool // the handler asked for one of its own
	detached   func()      // nobody needs to wait for this one; nil without group commit

	member *member // that gives items to sets; nil where there is no group
	sess   Session // of its group
	given  given
}

// run is the context of a handler that may finish although its message's context
// has ended: it ends with the transaction's, and has the values of the message's.
type run struct {
	context.Context //nolint:containedctx // of the transaction: without values, so that contexts derived from run hang on it alone

	values context.Context //nolint:containedctx // of the message
	scope  *scope
}

func (r run) Value(key any) any {
	if r.scope != nil {
		switch key {
		case scopeKey{}:
			return r.scope
		case detachedKey{}:
			return nil // a claim in another inbox, inside of this handler, ends with it
		}
	}
	if v := r.Context.Value(key); v != nil {
		return v // that it can be cancelled, which package context asks for
	}
	return r.values.Value(key)
}

func scopeOf(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// Tx returns the transaction that holds the claim of this context. It is dead
// once the handler returned. Without a claim's transaction in ctx it returns an
// error of class Config, never a silent fallback to the pool.
//
// It is safe for concurrent use as far as *sql.Tx is: statements run one after
// the other.
func Tx(ctx context.Context) (DBTX, error) {
	if tx, ok := ctx.Value(txKey{}).(DBTX); ok {
		return tx, nil
	}
	return nil, ConfigError("inbox.Tx", noTx(ctx))
}

// SQLTx returns the raw transaction for libraries that insist on one. What goes
// through it is not guarded: Commit and Rollback on it split the claim from its
// writes, which is found out afterwards, not prevented. Return its error
// unchanged.
func SQLTx(ctx context.Context) (*sql.Tx, error) {
	raw, ok := ctx.Value(rawKey{}).(func() (*sql.Tx, error))
	if !ok {
		return nil, ConfigError("inbox.SQLTx", noTx(ctx))
	}
	if err := Alone(ctx); err != nil {
		return nil, err
	}
	return raw()
}

func noTx(ctx context.Context) error {
	if scopeOf(ctx) != nil {
		return errOtherHandle
	}
	return ErrNoTx
}

// Alone returns nil when the handler has the transaction to itself; otherwise
// an error that the handler must return unchanged: it takes the message out of
// its group and runs it alone. Call it before anything else: then the others of
// the group need not run again. Without group commit it is always nil.
func Alone(ctx context.Context) error {
	s := scopeOf(ctx)
	switch {
	case s == nil:
		return ConfigError("inbox.Alone", ErrNoTx)
	case s.grouped:
		s.wantsAlone.Store(true)
		return errAlone
	case s.detached != nil:
		s.detached()
	}
	return nil
}

// Current returns the claim that the handler of this context runs inside, with
// its key in stored form. Ids of produced messages and keys of outside effects
// derive from it, so that they are the same for every copy of the message. The
// context of a Set has none: ask that of each message.
func Current(ctx context.Context) (Claim, bool) {
	s := scopeOf(ctx)
	if s == nil || ctx.Value(setKey{}) == s {
		return Claim{}, false
	}
	return s.claim, true
}

// WithTx is for stores: it puts the guarded handle, and a func that gives the
// raw transaction, into a handler's context.
func WithTx(ctx context.Context, tx DBTX, raw func() (*sql.Tx, error)) context.Context {
	return context.WithValue(context.WithValue(ctx, txKey{}, tx), rawKey{}, raw)
}

// WithConsumer is for subscribers: it names the consumer (the queue) of the
// messages whose context derives from ctx.
func WithConsumer(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, consumerKey{}, name)
}

// ConsumerName returns what WithConsumer put into ctx.
func ConsumerName(ctx context.Context) (string, bool) {
	name, ok := ctx.Value(consumerKey{}).(string)
	return name, ok
}

// WithAttempt is for whoever repeats Do: n is the number of this attempt,
// counted from 1 over all deliveries of the message. Hooks and handlers see it.
func WithAttempt(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, attemptKey{}, n)
}

// Attempt returns what WithAttempt put into ctx, 1 if nothing did.
func Attempt(ctx context.Context) int {
	if n, ok := ctx.Value(attemptKey{}).(int); ok {
		return n
	}
	return 1
}

// Detach is for whoever settles messages of a subscriber that ends their contexts at
// a shutdown: Do with this context stops to wait when it ends, but a handler that
// runs by then may finish and commit, its own context goes on.
func Detach(ctx context.Context) context.Context {
	return context.WithValue(ctx, detachedKey{}, true)
}

func detached(ctx context.Context) bool { return ctx.Value(detachedKey{}) != nil }

// WithClaimed is for whoever holds others back until a claim succeeds: fn is
// called when Do has begun its transaction and the claim is decided, before the
// handler. It must not block.
func WithClaimed(ctx context.Context, fn func()) context.Context {
	return context.WithValue(ctx, claimedKey{}, fn)
}

// Claimed calls what WithClaimed put into ctx. Do does.
func Claimed(ctx context.Context) {
	if fn, ok := ctx.Value(claimedKey{}).(func()); ok {
		fn()
	}
}
