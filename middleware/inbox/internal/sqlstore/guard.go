package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// errLate is what a handle gives once its handler returned.
var errLate = fmt.Errorf("handle used after its handler returned: finish all work on the transaction inside the handler: %w", sql.ErrTxDone)

// guard is the inbox.DBTX of one handler.
type guard struct {
	s *session

	// calls are readers; kill writes, so it waits for those in flight.
	calls sync.RWMutex
	dead  bool

	mu    sync.Mutex
	rows  *sql.Rows   // of the last query; the handler may have left it open
	stmts []*sql.Stmt // prepared through this handle
	ends  []func()    // of the contexts of results
}

// kill makes the handle useless and closes what was left open on it.
func (g *guard) kill() {
	g.calls.Lock()
	defer g.calls.Unlock()
	if g.dead {
		return
	}
	g.dead = true
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rows != nil {
		_ = g.rows.Close() // a result left unread blocks the connection for COMMIT
	}
	for _, st := range g.stmts {
		_ = st.Close()
	}
	for _, end := range g.ends {
		end()
	}
}

// bound ends a statement's context with the transaction's: database/sql does not
// end a statement that was given another one. Call end when it is over.
func (g *guard) bound(ctx context.Context) (_ context.Context, end func()) {
	if limit, ok := g.s.ctx.Deadline(); ok {
		if own, ok := ctx.Deadline(); ok && !own.After(limit) {
			return ctx, func() {} // the handler's own
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(g.s.ctx, func() { cancel(context.Cause(g.s.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// boundResult is bound for a result: it ends with the handle.
func (g *guard) boundResult(ctx context.Context) context.Context {
	bound, end := g.bound(ctx)
	if bound != ctx {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ends = append(g.ends, end)
	}
	return bound
}

// enter admits one call. The caller must leave with calls.RUnlock when err is
// nil.
func (g *guard) enter(query string, prepare bool) (verdict, error) {
	g.calls.RLock()
	if g.dead {
		g.calls.RUnlock()
		return verdict{}, errLate
	}
	v := g.s.store.d.Grammar.judge(query)
	if prepare {
		v.marks = nil // when it runs does not show
	}
	err := g.s.admit(v)
	if err == nil && g.s.store.d.OneResult && g.unread() {
		err = g.s.doom(errUnread)
	}
	if err != nil {
		g.calls.RUnlock()
		return v, err
	}
	return v, nil
}

var errUnread = errors.New("statement not sent, a result of this transaction is still open: read it to the end or close it first")

// unread tells whether the last query's result is still open.
func (g *guard) unread() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rows == nil {
		return false
	}
	_, err := g.rows.Columns()
	return err == nil
}

// ExecContext is that of *sql.Tx, guarded.
func (g *guard) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	v, err := g.enter(query, false)
	if err != nil {
		return nil, err
	}
	defer g.calls.RUnlock()
	ctx, end := g.bound(ctx)
	defer end()
	res, err := g.s.tx.ExecContext(ctx, query, args...)
	return res, g.s.seen(v, err)
}

// QueryContext is that of *sql.Tx, guarded.
func (g *guard) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	v, err := g.enter(query, false)
	if err != nil {
		return nil, err
	}
	defer g.calls.RUnlock()
	rows, err := g.s.tx.QueryContext(g.boundResult(ctx), query, args...)
	if err := g.s.seen(v, err); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rows = rows
	return rows, nil
}

// QueryRowContext is that of *sql.Tx, guarded. A refusal comes out of Scan, as
// every error of a *sql.Row does.
func (g *guard) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	v, err := g.enter(query, false)
	if err != nil {
		return g.s.tx.QueryRowContext(ended{err}, query)
	}
	defer g.calls.RUnlock()
	row := g.s.tx.QueryRowContext(g.boundResult(ctx), query, args...)
	if err := row.Err(); err != nil {
		if told := g.s.seen(v, err); !errors.Is(err, told) {
			return g.s.tx.QueryRowContext(ended{told}, query)
		}
		return row
	}
	_ = g.s.seen(v, nil)
	return row
}

// PrepareContext is that of *sql.Tx, guarded. The text is judged now. Errors of
// the statement itself pass by the handle: those of the server are seen by the
// proof before commit, those of the client (an argument of a wrong type) by
// nobody. A savepoint that it sets or returns to is not known either.
func (g *guard) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	v, err := g.enter(query, true)
	if err != nil {
		return nil, err
	}
	defer g.calls.RUnlock()
	ctx, end := g.bound(ctx)
	defer end()
	st, err := g.s.tx.PrepareContext(ctx, query)
	if err := g.s.seen(v, err); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stmts = append(g.stmts, st)
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.s.prepared = true
	return st, nil
}

// ended is a context that is over, with an error of ours: database/sql has no
// other way to make a *sql.Row that bears one.
type ended struct{ err error }

var closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (ended) Deadline() (time.Time, bool) { return time.Time{}, false }
func (ended) Done() <-chan struct{}       { return closed }
func (e ended) Err() error                { return e.err }
func (ended) Value(any) any               { return nil }
