package pgxinbox

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// SendBatch is that of pgx.Tx, guarded: every queued text is judged, and one that
// is refused keeps the whole batch back. In a transaction that failed pgx could not
// even describe what comes after a ROLLBACK TO, so there it must stand alone.
func (g *guard) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := g.enter(); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	defer g.leave()
	r := &results{s: g.s}
	for _, q := range b.QueuedQueries {
		ms, err := g.s.admit(q.SQL)
		if err != nil {
			return pgx.FailedBatchResults(b, err)
		}
		r.marks = append(r.marks, ms...)
		q.Arguments = g.s.judging(q.Arguments)
		if q.Fn != nil {
			q.Fn = r.watching(q.Fn)
		}
	}
	g.s.points.Send(r.marks, g.s.doomed)
	ctx, r.release = g.s.bound(ctx)
	r.inner = g.s.tx.SendBatch(ctx, b)
	g.s.open = r
	return r
}

// results are a handler's pgx.BatchResults.
type results struct {
	s       *session
	inner   pgx.BatchResults
	marks   sqlstore.Marks
	release func()

	done   atomic.Bool
	err    error
	last   *rows
	gone   bool  // the handler returned: its funcs are not called any more
	callee error // what a func of the handler returned
}

var _ pgx.BatchResults = (*results)(nil)

// watching tells a func's own error from the server's.
func (r *results) watching(fn func(pgx.BatchResults) error) func(pgx.BatchResults) error {
	return func(br pgx.BatchResults) error {
		if r.gone {
			_, err := br.Exec()
			return err
		}
		r.callee = fn(br)
		return r.callee
	}
}

func (r *results) enter() bool {
	if r.done.Load() {
		return false
	}
	r.s.turn <- struct{}{}
	if r.done.Load() {
		r.leave()
		return false
	}
	if r.last != nil {
		r.last.close()
	}
	return true
}

func (r *results) leave() { <-r.s.turn }

// abandon implements closer.
func (r *results) abandon() {
	r.gone = true
	if r.last != nil {
		r.last.close()
	}
	r.close()
}

// isOpen implements closer.
func (r *results) isOpen() bool { return !r.done.Load() }

// close reads what is left, with the turn held.
func (r *results) close() {
	if r.done.Load() {
		return
	}
	err := r.inner.Close()
	own := err != nil && r.callee != nil && r.s.tx.status() == statusOpen
	if !own {
		err = r.s.seen(r.marks, err)
	}
	r.err = err
	r.release()
	r.done.Store(true)
}

// Exec implements pgx.BatchResults.
func (r *results) Exec() (pgconn.CommandTag, error) {
	if !r.enter() {
		return pgconn.CommandTag{}, r.over()
	}
	defer r.leave()
	tag, err := r.inner.Exec()
	return tag, r.s.seen(nil, err)
}

// Query implements pgx.BatchResults.
func (r *results) Query() (pgx.Rows, error) {
	return r.query()
}

// QueryRow implements pgx.BatchResults.
func (r *results) QueryRow() pgx.Row {
	rows, _ := r.query() // they bear the error
	return &row{rows}
}

func (r *results) query() (*rows, error) {
	if !r.enter() {
		err := r.over()
		return failedRows(err), err
	}
	defer r.leave()
	inner, err := r.inner.Query()
	if err != nil {
		err = r.s.doom(err)
		return failedRows(err), err
	}
	r.last = &rows{s: r.s, inner: inner, release: func() {}}
	return r.last, nil
}

// Close implements pgx.BatchResults.
func (r *results) Close() error {
	if r.enter() {
		defer r.leave()
		r.close()
	}
	return r.err
}

func (r *results) over() error {
	if r.err != nil {
		return r.err
	}
	return errBatchClosed
}

// Tx implements pgx.BatchResults: the batch began none.
func (*results) Tx() pgx.Tx { return nil }
