package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// restoreTimeout bounds what is done to give a connection back.
const restoreTimeout = 5 * time.Second

// lookTimeout bounds the look into the table after a run that went wrong.
const lookTimeout = 5 * time.Second

// session is one open transaction.
type session struct {
	store  *Store
	ctx    context.Context //nolint:containedctx // bounds the transaction, as in database/sql
	tx     *sql.Tx
	conn   *sql.Conn // nil when the user began
	pinned Pinned
	leave  func()
	claims []inbox.Claim // new ones

	yielded bool // the lock was taken alone because others did
	over    bool // the server answered our COMMIT or ROLLBACK
	spoilt  bool // the connection is not to be used again: the handler ended the transaction, or no claim can be written

	// mu guards what the guards report.
	mu       sync.Mutex
	doomed   error // first error that no ROLLBACK TO undid
	refused  bool  // a statement was, and no ROLLBACK TO makes up for that
	gone     bool  // an error said that the transaction is no more
	points   Points
	raw      bool // the raw transaction was handed out
	prepared bool // a statement was; what it does is not seen
	unjudged bool // some statement's text did not tell
	sent     bool // a statement was, or was refused
	shared   bool // another handler ran in this transaction before
	marked   bool // Savepoint was called for the handler that runs
}

// Yielded implements inbox.Yielding.
func (s *session) Yielded() bool { return s.yielded }

// Context implements inbox.Session.
func (s *session) Context(ctx context.Context) (context.Context, func()) {
	g := &guard{s: s}
	return inbox.WithTx(ctx, g, func() (*sql.Tx, error) {
		g.calls.RLock()
		defer g.calls.RUnlock()
		if g.dead {
			return nil, errLate
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.raw = true
		return s.tx, nil
	}), g.kill
}

// admit refuses a statement, or notes what cannot be judged of it.
func (s *session) admit(v verdict) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = true
	err := v.err()
	if err == nil && s.shared {
		err = s.points.Foreign(v.marks)
	}
	if err != nil {
		// A handler that goes on as if it had been undone must not be committed.
		s.refused = true
		if s.doomed == nil {
			s.doomed = err
		}
		return err
	}
	if s.undoneNow() {
		if s.doomed == nil {
			s.doomed = errUndone
		}
		return fmt.Errorf("statement not sent, the transaction failed before: %w", s.doomed)
	}
	// The server would only answer that the transaction is aborted; the first
	// cause says more.
	if s.doomed != nil && !v.undoes && !s.raw && !s.unjudged && s.aborted(s.doomed) {
		return fmt.Errorf("statement not sent, the transaction failed before: %w", s.doomed)
	}
	s.unjudged = s.unjudged || v.unjudged
	s.points.Send(v.marks, s.doomed)
	return nil
}

// undoneNow tells whether the transaction is known to be no more. mu is held.
func (s *session) undoneNow() bool { return s.gone || s.pinned.Gone != nil && s.pinned.Gone() }

func (s *session) aborted(err error) bool { return s.store.d.Aborted != nil && s.store.d.Aborted(err) }

// doom notes an error of a statement that was not sent: a handler that goes on
// as if it had been must not be committed.
func (s *session) doom(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doomed == nil {
		s.doomed = err
	}
	return err
}

// seen takes the result of a handler's statement and returns what the handler
// is given.
func (s *session) seen(v verdict, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil && !s.refused:
		s.doomed = s.points.Done(v.marks, s.doomed)
	case err == nil:
	case !s.fails(err):
	case s.doomed == nil:
		s.doomed = err
	default:
		return fmt.Errorf("%w (and then: %w)", s.doomed, err)
	}
	return err
}

// fails tells whether nothing may be committed after the error. mu is held.
func (s *session) fails(err error) bool {
	d := s.store.d
	s.gone = s.gone || d.Gone != nil && d.Gone(err) || d.Undone != nil && s.loose() && d.Undone(s.ctx, s.tx)
	return d.Dooms(err) || s.undoneNow()
}

// Commit implements inbox.Session.
func (s *session) Commit(ctx context.Context) error {
	defer s.done()
	if err := s.ready(ctx, true); err != nil {
		_ = s.rollback()
		switch judged, ended := s.judged(), errors.Is(err, inbox.ErrEnded); {
		case !judged && !ended:
			if told := s.committed(ctx); told != nil {
				return fmt.Errorf("%w: %w", told, err)
			}
		case judged && ended && s.strict() && s.undone(ctx):
			// Else what the handler sent afterwards was committed by itself, and a retry
			// would repeat it.
			return &inbox.SwallowedError{Err: errUndone}
		}
		return err
	}
	err := s.tx.Commit()
	switch {
	case err == nil:
		s.over = true
		return nil
	case errors.Is(err, sql.ErrTxDone):
		return s.vanished(err)
	case err == context.Canceled, err == context.DeadlineExceeded, s.store.d.Uncommitted(err): //nolint:errorlint,err113 // database/sql returns these bare when it did not send COMMIT; drivers wrap them
		return Because(s.ctx, err)
	}
	return Because(s.ctx, fmt.Errorf("%w: %w", inbox.ErrUnknownCommit, err))
}

// ready tells whether the transaction may be committed, as far as the handlers go
// that were not checked before. The server is asked only where they could not be
// judged, unless proof is wanted.
func (s *session) ready(ctx context.Context, proof bool) error {
	s.mu.Lock()
	doomed, marked := s.doomed, s.marked
	s.mu.Unlock()
	// Where there is a savepoint the return to it is the proof: the proof by another
	// one would release it.
	if doomed != nil && (marked && !proof || s.judged() && !s.leaks()) {
		return &inbox.SwallowedError{Err: doomed}
	}
	switch st := s.status(); {
	case s.ctx.Err() != nil: // looked at after the status: its end rolls back
		return Because(s.ctx, errors.New("transaction was rolled back"))
	case st == 'E':
		if doomed == nil {
			doomed = errors.New("a statement failed and its error was not returned")
		}
		return &inbox.SwallowedError{Err: doomed}
	case st == 'I':
		return fmt.Errorf("%w (the connection is in no transaction)", inbox.ErrEnded)
	}
	if proof || !s.judged() || s.wasPrepared() {
		if err := s.prove(ctx); err != nil {
			return err
		}
		if d := s.store.d; !proof && d.Renew != "" {
			if _, err := s.tx.ExecContext(ctx, d.Renew); err != nil {
				return s.because(err)
			}
		}
	}
	if doomed != nil {
		return &inbox.SwallowedError{Err: doomed}
	}
	return nil
}

// judged: every statement was seen, and its text told that it left the
// transaction open.
func (s *session) judged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.raw && !s.unjudged
}

func (s *session) wasPrepared() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prepared
}

// strict: nothing that follows a transaction which the database gave up stays.
func (s *session) strict() bool { return s.pinned.Restore != nil || s.store.d.ReadTx }

// loose: something of that may stay.
func (s *session) loose() bool { return s.store.d.Autocommits && !s.strict() }

// leaks: something may have been sent, unseen, to a connection that keeps it.
func (s *session) leaks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loose() && s.prepared
}

// status of the transaction as the driver's connection has it.
func (s *session) status() (st byte) {
	if s.conn == nil || s.store.d.Status == nil {
		return 0
	}
	_ = s.conn.Raw(func(dc any) error {
		st = s.store.d.Status(dc)
		return nil
	})
	return st
}

// prove asks the server.
func (s *session) prove(ctx context.Context) error {
	err := s.store.d.Prove(ctx, s.tx)
	var swallowed *inbox.SwallowedError
	s.spoilt = errors.Is(err, inbox.ErrEnded)
	switch {
	case err == nil, s.spoilt, errors.As(err, &swallowed):
		return err
	case errors.Is(err, sql.ErrTxDone):
		return s.vanished(err)
	}
	return Because(s.ctx, fmt.Errorf("prove the claim's transaction (was a result left open?): %w", err))
}

// vanished explains a transaction that database/sql calls done: its context
// ended, or the handler called Commit or Rollback on the raw one.
func (s *session) vanished(err error) error {
	s.mu.Lock()
	raw := s.raw
	s.mu.Unlock()
	cause := context.Cause(s.ctx)
	switch {
	case cause != nil:
		return Because(s.ctx, err) // of a raw one the table knows more, see committed
	case !raw:
		return fmt.Errorf("transaction was ended under the claim: %w", err)
	}
	return fmt.Errorf("%w: %w", inbox.ErrEnded, err)
}

// committed looks whether a claim of this session is in the table although the
// session did not commit it. The error wraps inbox.ErrEnded when it is, and
// inbox.ErrDoubt when that could not be found out.
func (s *session) committed(ctx context.Context) error {
	there, err := s.look(ctx)
	switch {
	case err != nil:
		s.store.o.Logger.ErrorContext(ctx, "could not look whether a handler committed its claim's transaction itself",
			"consumer", s.claims[0].Consumer, "key", s.claims[0].Key, "err", err)
		return fmt.Errorf("%w: %w", inbox.ErrDoubt, err)
	case there:
		return fmt.Errorf("%w (its claim is committed)", inbox.ErrEnded)
	}
	return nil
}

// undone looks whether a transaction that was ended by nothing that went through
// the guard left no claim: then the server gave it up, as at a deadlock in a
// prepared statement or in the rows of a query, whose error the handler dropped.
func (s *session) undone(ctx context.Context) bool {
	there, err := s.look(ctx)
	return err == nil && !there
}

var errUndone = errors.New("the database undid the transaction (a deadlock?)")

// look for the session's claims in the table. It ends the session first: the
// pool may have no second connection.
func (s *session) look(ctx context.Context) (there bool, err error) {
	_ = s.rollback()
	s.done()
	if len(s.claims) == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	recs, err := s.store.Lookup(ctx, s.claims)
	return slices.ContainsFunc(recs, func(r inbox.Record) bool { return r.Found && !r.Split() }), err
}

// Rollback implements inbox.Session.
func (s *session) Rollback(ctx context.Context) error {
	defer s.done()
	s.mu.Lock()
	failed := s.doomed != nil && s.aborted(s.doomed)
	undone := s.undoneNow()
	s.mu.Unlock()
	judged := s.judged()
	var lost error
	switch st := s.status(); {
	case s.ctx.Err() != nil && !judged: // it was rolled back, or is gone since before
	case st == 'I' && s.ctx.Err() == nil:
		_ = s.rollback()
		return inbox.ErrEnded
	case judged && undone && !s.leaks():
		_ = s.rollback() // says that there is nothing to undo
		return nil
	case judged && (!s.loose() || s.ctx.Err() != nil):
		return s.rollback()
	case st == 'E', st == 0 && failed:
		// A failed transaction answers nothing.
	default:
		lost = s.prove(ctx)
		if lost == nil {
			return s.rollback()
		}
		if errors.Is(lost, inbox.ErrEnded) {
			_ = s.rollback()
			return lost
		}
	}
	// It failed or is out of reach: the question goes to the table.
	if err := s.committed(ctx); err != nil {
		return err
	}
	return lost
}

// drop ends a session that never began to be used.
func (s *session) drop() {
	_ = s.rollback()
	s.done()
}

func (s *session) rollback() error {
	err := s.tx.Rollback()
	s.over = s.over || err == nil
	return err
}

// done gives everything back, once. The transaction is over or ending: Close
// waits for it.
func (s *session) done() {
	if s.leave == nil {
		return
	}
	if s.conn != nil {
		if s.spoilt || s.pinned.Restore != nil && !s.restored() {
			// It must not go back into the pool as it is: it may hold table locks, or
			// commit each statement.
			_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		_ = s.conn.Close()
	}
	s.leave()
	s.leave = nil
}

// restored undoes what Pin did. Not while the transaction may still be open, as
// when its context ended and database/sql is about to roll back: to set
// autocommit would commit it.
func (s *session) restored() bool {
	if !s.over && (!s.pinned.Anytime || !s.judged()) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), restoreTimeout)
	defer cancel()
	return s.pinned.Restore(ctx) == nil
}
