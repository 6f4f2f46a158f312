package dlq

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sekali-mq/sekali/internal/backoff"
)

const (
	// A transaction that the database undid is run again this often.
	writeTries = 8
	writeFirst = 20 * time.Millisecond
	writeLimit = time.Second
)

// ours marks an error that is this package's answer, not the database's: the
// transaction is rolled back and not run again.
type ours struct{ error }

func (o ours) Unwrap() error { return o.error }

// unknownCommitError is a COMMIT without an answer: what it was to do may be done.
type unknownCommitError struct{ err error }

func (u *unknownCommitError) Error() string {
	return "commit was sent, its answer was lost: " + u.err.Error()
}
func (u *unknownCommitError) Unwrap() error { return u.err }

// write runs fn in a transaction, and again when the database undid it. A COMMIT
// without an answer is not repeated: the caller knows whether it may be.
func (l *Letters) write(ctx context.Context, fn func(q querier) error) error {
	if l.d.immediate {
		select {
		case l.turn <- struct{}{}:
			defer func() { <-l.turn }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	waits := backoff.New(writeFirst, writeLimit)
	for try := 1; ; try++ {
		err := l.writeOnce(ctx, fn)
		if err == nil {
			return nil
		}
		if o, ok := errors.AsType[ours](err); ok {
			return o.error
		}
		if _, ok := errors.AsType[*unknownCommitError](err); ok || try == writeTries {
			return err
		}
		if backoff.Sleep(ctx, waits.Next()) != nil {
			return err
		}
	}
}

func (l *Letters) writeOnce(ctx context.Context, fn func(q querier) error) error {
	if l.d.immediate {
		return l.immediately(ctx, fn)
	}
	tx, err := l.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if l.durably != "" {
		if _, err := tx.ExecContext(ctx, l.durably); err != nil {
			return err
		}
	}
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return &unknownCommitError{err}
	}
	return nil
}

// immediately takes SQLite's write lock at BEGIN: a transaction that first reads
// and then writes would fail where another one wrote in between.
func (l *Letters) immediately(ctx context.Context, fn func(q querier) error) (err error) {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	open := true
	defer func() {
		if open {
			if _, rerr := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); rerr != nil {
				err = errors.Join(err, fmt.Errorf("rollback: %w", rerr))
			}
		}
	}()
	if err := fn(conn); err != nil {
		return err
	}
	// Not with ctx: an interrupted COMMIT would leave the connection in doubt.
	if _, err := conn.ExecContext(context.WithoutCancel(ctx), "COMMIT"); err != nil {
		return err // SQLite says that it did not; the transaction is rolled back
	}
	open = false
	return nil
}

// read runs fn on the pool, or in a transaction where connections do not
// autocommit.
func (l *Letters) read(ctx context.Context, fn func(q querier) error) error {
	if !l.d.readTx {
		return fn(l.db)
	}
	tx, err := l.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	return fn(tx)
}
