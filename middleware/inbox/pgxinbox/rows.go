package pgxinbox

import (
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// rows are a handler's pgx.Rows: no call reaches the connection after the handler
// returned, and errors are seen wherever they come out.
type rows struct {
	s       *session
	inner   pgx.Rows
	marks   sqlstore.Marks
	release func()

	done   atomic.Bool
	err    error
	tag    pgconn.CommandTag
	misfit bool // a Scan failed: that is between the handler and its types
}

var _ pgx.Rows = (*rows)(nil)

// failedRows bear an error only.
func failedRows(err error) *rows {
	r := &rows{err: err}
	r.done.Store(true)
	return r
}

// enter takes the turn; false when the rows are closed. Nobody else can hold it
// for long: other statements are not admitted while rows are open.
func (r *rows) enter() bool {
	if r.done.Load() {
		return false
	}
	r.s.turn <- struct{}{}
	if r.done.Load() {
		r.leave()
		return false
	}
	return true
}

func (r *rows) leave() { <-r.s.turn }

// abandon implements closer.
func (r *rows) abandon() { r.close() }

// isOpen implements closer.
func (r *rows) isOpen() bool { return !r.done.Load() }

// close reads what is left, with the turn held.
func (r *rows) close() {
	if r.done.Load() {
		return
	}
	r.inner.Close()
	r.tag = r.inner.CommandTag()
	switch err := r.inner.Err(); {
	case r.misfit:
		r.err = err
	default:
		r.err = r.s.seen(r.marks, err)
	}
	r.release()
	r.done.Store(true)
}

// Close implements pgx.Rows.
func (r *rows) Close() {
	if r.enter() {
		defer r.leave()
		r.close()
	}
}

// Next implements pgx.Rows.
func (r *rows) Next() bool {
	if !r.enter() {
		return false
	}
	defer r.leave()
	if r.inner.Next() {
		return true
	}
	r.close()
	return false
}

// Scan implements pgx.Rows.
func (r *rows) Scan(dest ...any) error {
	if len(dest) == 1 {
		if whole, ok := dest[0].(pgx.RowScanner); ok {
			return r.scanned(whole.ScanRow(r))
		}
	}
	if !r.enter() {
		return r.over()
	}
	defer r.leave()
	err := r.inner.Scan(dest...)
	if err != nil {
		r.misfit = true
		r.close()
	}
	return err
}

// scanned closes the rows, as pgx does, when a RowScanner failed.
func (r *rows) scanned(err error) error {
	if err != nil && r.enter() {
		defer r.leave()
		r.close()
		if r.err == nil {
			r.err = err
		}
	}
	return err
}

func (r *rows) over() error {
	if r.err != nil {
		return r.err
	}
	return errors.New("rows are closed")
}

// Values implements pgx.Rows.
func (r *rows) Values() ([]any, error) {
	if !r.enter() {
		return nil, r.over()
	}
	defer r.leave()
	vs, err := r.inner.Values()
	if err != nil {
		r.misfit = true
		r.close()
	}
	return vs, err
}

// RawValues implements pgx.Rows.
func (r *rows) RawValues() [][]byte {
	if !r.enter() {
		return nil
	}
	defer r.leave()
	return r.inner.RawValues()
}

// FieldDescriptions implements pgx.Rows.
func (r *rows) FieldDescriptions() []pgconn.FieldDescription {
	if !r.enter() {
		return nil
	}
	defer r.leave()
	return r.inner.FieldDescriptions()
}

// Err implements pgx.Rows.
func (r *rows) Err() error {
	if !r.done.Load() {
		return nil
	}
	return r.err
}

// CommandTag implements pgx.Rows.
func (r *rows) CommandTag() pgconn.CommandTag {
	if !r.done.Load() {
		return pgconn.CommandTag{}
	}
	return r.tag
}

// TypeMap implements pgx.Rows.
func (r *rows) TypeMap() *pgtype.Map {
	if r.inner == nil {
		return nil
	}
	return r.inner.TypeMap()
}

// Conn implements pgx.Rows, which allows nil.
func (*rows) Conn() *pgx.Conn { return nil }

// row is rows of which one is read.
type row struct{ rows *rows }

// Scan implements pgx.Row.
func (r *row) Scan(dest ...any) error {
	defer r.rows.Close()
	for _, d := range dest {
		if _, ok := d.(*pgtype.DriverBytes); ok {
			return errors.New("cannot scan into *pgtype.DriverBytes from QueryRow")
		}
	}
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	_ = r.rows.Scan(dest...) // Err has it
	r.rows.Close()
	return r.rows.Err()
}
