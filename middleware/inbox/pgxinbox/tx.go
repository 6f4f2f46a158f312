package pgxinbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

type txKey struct{}

// Tx returns the transaction that holds the claim of this context, as pgx knows
// it. Without one in ctx it returns an error of class Config, never a silent
// fallback to the pool.
//
// All writes through it are committed together with the claim, after the handler
// returned nil. It is dead once the handler returned; what comes later gets an
// error that wraps pgx.ErrTxClosed. As every pgx.Tx it takes one call at a time,
// from one goroutine.
//
// Commit, Rollback and statements that begin with COMMIT, ROLLBACK (not TO
// SAVEPOINT), BEGIN or START are refused, and a run that goes on after that is not
// committed. Begin makes a savepoint, whose Commit and Rollback are allowed. A
// statement that failed, on the server or before it was sent, must be returned
// or undone with a savepoint: else the run is not committed.
//
// Conn and LargeObjects are not guarded. A handler that used them is looked at
// more closely before the commit, and its connection is closed afterwards, which
// costs the next run a new one. Conn returns nil once the handler returned. The
// Conn of Rows is always nil.
func Tx(ctx context.Context) (pgx.Tx, error) {
	if g, ok := ctx.Value(txKey{}).(*guard); ok {
		return g, nil
	}
	err := inbox.ErrNoTx
	if _, ok := inbox.Current(ctx); ok {
		err = errors.New("this inbox gives another handle: use inbox.Tx")
	}
	return nil, inbox.ConfigError("pgxinbox.Tx", err)
}

// guard is the pgx.Tx of one handler, or a savepoint in it.
type guard struct {
	s      *session
	parent *guard // nil for the transaction itself
	point  string // savepoint
	dead   atomic.Bool
}

var _ pgx.Tx = (*guard)(nil)

// closedTx is a pgx.Tx that is over.
var closedTx = func() pgx.Tx {
	var b pgx.Batch
	b.BeginTx(pgx.TxOptions{})
	return pgx.FailedBatchResults(&b, pgx.ErrTxClosed).Tx()
}()

// kill makes the handle useless and closes what was left open on it.
func (g *guard) kill() {
	if g.dead.Swap(true) {
		return
	}
	g.s.turn <- struct{}{} // waits for a call under way
	defer g.leave()
	if g.s.open != nil {
		g.s.open.abandon() // a result left unread blocks the connection for COMMIT
		g.s.open = nil
	}
}

// closed returns the error of a handle that is over.
func (g *guard) closed() error {
	for p := g; p != nil; p = p.parent {
		switch {
		case !p.dead.Load():
		case p.parent == nil:
			return errLate
		default:
			return pgx.ErrTxClosed
		}
	}
	return nil
}

// enter admits one call. The caller must leave when err is nil.
func (g *guard) enter() error {
	if err := g.closed(); err != nil {
		return err
	}
	select {
	case g.s.turn <- struct{}{}:
	default:
		if err := g.closed(); err != nil {
			return err
		}
		g.s.clashed.Store(true)
		return errInUse
	}
	if err := g.closed(); err != nil {
		g.leave()
		return err
	}
	return nil
}

func (g *guard) leave() { <-g.s.turn }

// Begin makes a savepoint.
func (g *guard) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := g.enter(); err != nil {
		return nil, err
	}
	defer g.leave()
	g.s.begun++
	n := &guard{s: g.s, parent: g, point: "sp_" + strconv.Itoa(g.s.begun)}
	if _, err := g.exec(ctx, "savepoint "+n.point, nil); err != nil {
		return nil, err
	}
	return n, nil
}

// Commit releases the savepoint; on the transaction itself it is refused.
func (g *guard) Commit(ctx context.Context) error {
	return g.finish(ctx, "Commit", "release savepoint ")
}

// Rollback undoes to the savepoint; on the transaction itself it is refused.
func (g *guard) Rollback(ctx context.Context) error {
	return g.finish(ctx, "Rollback", "rollback to savepoint ")
}

func (g *guard) finish(ctx context.Context, method, statement string) error {
	if err := g.enter(); err != nil {
		return err
	}
	defer g.leave()
	if g.parent == nil {
		g.s.refused = true
		return g.s.doom(fmt.Errorf("%s refused: the inbox ends the claim's transaction itself, when the handler returned; return an error to undo, use Begin for a part", method))
	}
	_, err := g.exec(ctx, statement+g.point, nil)
	g.dead.Store(true)
	return err
}

// Conn gives the connection itself.
func (g *guard) Conn() *pgx.Conn {
	if g.closed() != nil {
		return nil
	}
	g.s.raw.Store(true)
	if g.closed() != nil { // meanwhile
		return nil
	}
	return g.s.tx.Conn()
}

// LargeObjects is that of the transaction itself.
func (g *guard) LargeObjects() pgx.LargeObjects {
	if g.closed() != nil {
		return closedTx.LargeObjects()
	}
	g.s.raw.Store(true)
	if g.closed() != nil { // meanwhile
		return closedTx.LargeObjects()
	}
	return g.s.tx.LargeObjects()
}
