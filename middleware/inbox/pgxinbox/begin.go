package pgxinbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/postgres"
)

// Transaction status of a connection, as the protocol has it.
const (
	statusIdle   = 'I' // in none
	statusOpen   = 'T'
	statusFailed = 'E' // takes nothing but ROLLBACK
)

// undoTimeout bounds a ROLLBACK, and the farewell to a connection.
const undoTimeout = 5 * time.Second

// transaction is an open one and its connection.
type transaction struct {
	pgx.Tx

	conn *pgxpool.Conn
}

// begin opens a transaction and runs statements in it, all in one trip: queue
// queues them, read reads their results.
//
// A pooled connection may have died with the server since it was last used. What
// died before it answered to BEGIN had no effect, so it is tried again on the next
// one, at most once for each that was idle and once more.
func (s *store) begin(ctx context.Context, level pgx.TxIsoLevel, queue func(*pgx.Batch), read func(pgx.BatchResults) error) (*transaction, error) {
	for left := s.pool.Stat().IdleConns(); ; left-- {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return nil, fmt.Errorf("begin: %w", err)
		}
		tx, begun, err := send(ctx, conn, level, queue, read)
		if err == nil {
			return tx, nil
		}
		if begun && postgres.Class(err) == inbox.ClassDown {
			// To a server that takes no writes any more, say: it would come back from the
			// pool for ever, and another one may lead to the new primary.
			tx.sever()
		}
		tx.undo()
		if begun || left <= 0 || ctx.Err() != nil || postgres.Class(err) != inbox.ClassDown {
			return nil, err
		}
	}
}

// send returns the transaction also with an error.
func send(ctx context.Context, conn *pgxpool.Conn, level pgx.TxIsoLevel, queue func(*pgx.Batch), read func(pgx.BatchResults) error) (_ *transaction, begun bool, err error) {
	var batch pgx.Batch
	batch.BeginTx(pgx.TxOptions{IsoLevel: level})
	queue(&batch)
	br := conn.SendBatch(ctx, &batch)
	tx := &transaction{Tx: br.Tx(), conn: conn}
	if _, err := br.Exec(); err != nil {
		_ = br.Close() // the same error
		return tx, false, fmt.Errorf("begin: %w", err)
	}
	if err := read(br); err != nil {
		_ = br.Close()
		return tx, true, err
	}
	return tx, true, br.Close()
}

// status is what the server sent with its last answer: it costs nothing. 0 when
// the connection is lost.
func (tx *transaction) status() byte {
	if tx.lost() {
		return 0
	}
	return tx.conn.Conn().PgConn().TxStatus()
}

// lost: the connection is closed, and the transaction with it.
func (tx *transaction) lost() bool { return tx.conn.Conn().IsClosed() }

// undo rolls back whatever is open and gives the connection back. It does not
// depend on the context of the transaction, which may have ended.
func (tx *transaction) undo() {
	if !tx.lost() && tx.status() != statusIdle {
		ctx, cancel := context.WithTimeout(context.Background(), undoTimeout)
		defer cancel()
		_ = tx.Rollback(ctx) // closes the connection when it fails
	}
	tx.conn.Release()
}

// sever closes the connection, and so undoes the transaction.
func (tx *transaction) sever() {
	ctx, cancel := context.WithTimeout(context.Background(), undoTimeout)
	defer cancel()
	_ = tx.conn.Conn().Close(ctx)
}
