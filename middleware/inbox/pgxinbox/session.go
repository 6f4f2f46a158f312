package pgxinbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// session is one open transaction that holds claims.
type session struct {
	store  *store
	ctx    context.Context //nolint:containedctx // bounds the transaction, as in database/sql
	tx     *transaction
	claims []inbox.Claim // new ones
	unbind func() bool

	yielded bool // the lock was taken alone because others did

	// turn is held by whoever uses the connection; all below is used only then.
	// Handlers try, the session itself waits.
	turn     chan struct{}
	over     bool  // the connection is the pool's again
	doomed   error // first error that no ROLLBACK TO undid
	refused  bool  // a statement was, and no ROLLBACK TO makes up for that
	points   sqlstore.Points
	unjudged bool   // some statement's text did not tell
	sent     bool   // a statement was, or was refused
	shared   bool   // another handler ran in this transaction before
	open     closer // the last result that the handler was given
	begun    int    // savepoints made by Begin

	raw     atomic.Bool // the connection was handed out
	clashed atomic.Bool // a statement was not sent because the turn was taken
}

// closer is a result that occupies the connection until it is closed.
type closer interface {
	// abandon closes it, with the turn held.
	abandon()
	// isOpen tells whether it still occupies the connection.
	isOpen() bool
}

func newSession(ctx context.Context, st *store, tx *transaction) *session {
	s := &session{store: st, ctx: ctx, tx: tx, turn: make(chan struct{}, 1)}
	// pgx leaves a transaction open when the context ends that it was begun with.
	s.unbind = context.AfterFunc(ctx, s.expire)
	return s
}

// expire undoes the transaction when its context ends. Statements under way end
// with that context too, see bound.
func (s *session) expire() {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	switch {
	case s.over:
	case s.raw.Load():
		// A handler may be using the connection right now: only its socket may be
		// closed under it.
		_ = s.tx.Conn().PgConn().Conn().Close()
	default:
		s.tx.sever()
	}
}

// Yielded implements inbox.Yielding.
func (s *session) Yielded() bool { return s.yielded }

// Context implements inbox.Session.
func (s *session) Context(ctx context.Context) (context.Context, func()) {
	g := &guard{s: s}
	return context.WithValue(ctx, txKey{}, g), g.kill
}

// Commit implements inbox.Session.
func (s *session) Commit(ctx context.Context) error {
	s.turn <- struct{}{}
	err := s.commit(ctx)
	untold := err != nil && !s.judged() && !errors.Is(err, inbox.ErrEnded) && !errors.Is(err, inbox.ErrUnknownCommit)
	s.end()
	<-s.turn
	if untold {
		if told := s.committed(ctx); told != nil {
			return fmt.Errorf("%w: %w", told, err)
		}
	}
	return err
}

func (s *session) commit(ctx context.Context) error {
	if err := s.usable(); err != nil {
		return err
	}
	switch {
	case s.doomed != nil && s.tx.status() == statusOpen && !s.judged():
		return errors.Join(s.prove(ctx), &inbox.SwallowedError{Err: s.doomed})
	case s.doomed != nil:
		return &inbox.SwallowedError{Err: s.doomed}
	}
	return s.proveAndCommit(ctx)
}

// usable tells what the connection shows of itself: whether the transaction is
// open and no failure was passed over that the handle did not see.
func (s *session) usable() error {
	if s.doomed == nil && s.clashed.Load() {
		s.doomed = errInUse
	}
	switch {
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case s.tx.lost() && s.doomed == nil:
		return fmt.Errorf("the connection was lost, the transaction is undone: %w", net.ErrClosed)
	case s.tx.status() == statusIdle:
		return fmt.Errorf("%w (the connection is in no transaction)", inbox.ErrEnded)
	case s.doomed == nil && s.tx.status() == statusFailed:
		return &inbox.SwallowedError{Err: errors.New("a statement failed and its error was not returned")}
	}
	return nil
}

// judged: every statement was seen, and its text told that it left the
// transaction open.
func (s *session) judged() bool { return !s.raw.Load() && !s.unjudged }

// Rollback implements inbox.Session.
func (s *session) Rollback(ctx context.Context) error {
	s.turn <- struct{}{}
	var err error
	untold := false
	switch judged := s.judged(); {
	case s.tx.status() == statusIdle:
		err = inbox.ErrEnded
	case judged:
	case s.tx.status() == statusOpen:
		if err = s.prove(ctx); err != nil && !errors.Is(err, inbox.ErrEnded) {
			untold = true
		}
	default: // It failed or is out of reach: the question goes to the table.
		untold = true
	}
	lost := s.tx.lost() // before end, which may close it
	s.end()
	<-s.turn
	switch {
	case errors.Is(err, inbox.ErrEnded):
		return err
	case untold:
		if err := s.committed(ctx); err != nil {
			return err
		}
	}
	if lost {
		return errLost
	}
	return nil
}

var errLost = errors.New("the connection of the transaction was lost")

// end undoes what is open and gives the connection back.
func (s *session) end() {
	s.unbind()
	s.over = true
	if s.raw.Load() {
		// Whoever still has it must not reach another message's transaction.
		s.tx.sever()
	}
	s.tx.undo()
}

// lookTimeout bounds the look into the table after a run that went wrong.
const lookTimeout = 5 * time.Second

// committed looks whether a claim of this session is in the table although the
// session did not commit it. The error wraps inbox.ErrEnded when it is, and
// inbox.ErrDoubt when that could not be found out.
func (s *session) committed(ctx context.Context) error {
	if len(s.claims) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	recs, err := s.store.Lookup(ctx, s.claims)
	if err != nil {
		s.store.logger.ErrorContext(ctx, "could not look whether a handler committed its claim's transaction itself",
			"consumer", s.claims[0].Consumer, "key", s.claims[0].Key, "err", err)
		return fmt.Errorf("%w: %w", inbox.ErrDoubt, err)
	}
	if slices.ContainsFunc(recs, func(r inbox.Record) bool { return r.Found && !r.Split() }) {
		return fmt.Errorf("%w (its claim is committed)", inbox.ErrEnded)
	}
	return nil
}

// bound ends a statement's context with the transaction's.
func (s *session) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if limit, ok := s.ctx.Deadline(); ok {
		if own, ok := ctx.Deadline(); ok && !own.After(limit) {
			return ctx, func() {} // the handler's own
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

var (
	// errLate wraps what pgx returns of a transaction that is over.
	errLate = fmt.Errorf("handle used after its handler returned: finish all work on the transaction inside the handler: %w", pgx.ErrTxClosed)
	// errInUse: pgx would return this, or break.
	errInUse       = errors.New("the transaction is in use by another call: a pgx.Tx takes one at a time, from one goroutine")
	errBatchClosed = errors.New("batch is closed")
	errUnread      = errors.New("the result of the last query is still open: read it to its end or close it before the next statement")
)
