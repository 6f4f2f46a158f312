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
}

// enter admits one call. The caller must leave with calls.RUnlock when err is
// nil.
func (g *guard) enter(query string) (verdict, error) {
	g.calls.RLock()
	if g.dead {
		g.calls.RUnlock()
		return verdict{}, errLate
	}
	v := g.s.store.d.Grammar.judge(query)
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
	v, err := g.enter(query)
	if err != nil {
		return nil, err
	}
	defer g.calls.RUnlock()
	res, err := g.s.tx.ExecContext(ctx, query, args...)
	return res, g.s.seen(v, err)
}

// QueryContext is that of *sql.Tx, guarded.
func (g *guard) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	v, err := g.enter(query)
	if err != nil {
		return nil, err
	}
	defer g.calls.RUnlock()
	rows, err := g.s.tx.QueryContext(ctx, query, args...)
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
	v, err := g.enter(query)
	if err != nil {
		return g.s.tx.QueryRowContext(ended{err}, query)
	}
	defer g.calls.RUnlock()
	row := g.s.tx.QueryRowContext(ctx, query, args...)
	if err := row.Err(); err != nil {
		if told := g.s.seen(v, err); !errors.Is(err, told) {
			return g.s.tx.QueryRowContext(ended{told}, query)
		}
		return row
	}
	_ = g.s.seen(v, nil)
	return row
}

// PrepareContext is that of *sql.Tx, guarded. The text is judged now; the errors
// of the statement are seen by the proof before commit.
func (g *guard) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	v, err := g.enter(query)
	if err != nil {
		return nil, err
	}
	defer g.calls.RUnlock()
	st, err := g.s.tx.PrepareContext(ctx, query)
	if err := g.s.seen(v, err); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stmts = append(g.stmts, st)
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
