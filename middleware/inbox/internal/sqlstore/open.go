package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// open begins a transaction, with its turn in the queue where there is one.
func (s *Store) open(ctx context.Context, wait time.Duration) (*session, error) {
	sess := &session{store: s, ctx: ctx, leave: func() {}}
	if s.d.Enter != nil {
		leave, err := s.d.Enter(ctx, wait)
		if err != nil {
			return nil, err
		}
		sess.leave = leave
	}
	var err error
	if s.o.Begin != nil {
		sess.tx, err = s.o.Begin(ctx, s.db)
		if err == nil && sess.tx == nil {
			err = errors.New("the Begin func returned no transaction")
		}
	} else {
		err = sess.begin()
	}
	if err != nil {
		sess.leave()
		return nil, Because(ctx, fmt.Errorf("begin: %w", err))
	}
	s.watchPool()
	return sess, nil
}

// begin pins a connection and begins on it. A pooled connection may have died
// with the server since it was last used; BEGIN has no effect, so it is tried
// again on the next one, at most once for each that was idle and once more.
func (s *session) begin() error {
	db, d := s.store.db, s.store.d
	for left := db.Stats().Idle; ; left-- {
		conn, err := db.Conn(s.ctx)
		if err != nil {
			return err
		}
		var pinned Pinned
		if d.Pin != nil {
			pinned, err = d.Pin(s.ctx, conn)
		}
		if err == nil {
			s.tx, err = conn.BeginTx(s.ctx, &sql.TxOptions{Isolation: s.store.o.Isolation})
			if err == nil {
				s.conn, s.pinned = conn, pinned
				return nil
			}
			if pinned.Restore != nil {
				err = errors.Join(err, pinned.Restore(context.WithoutCancel(s.ctx)))
			}
		}
		_ = conn.Close()
		if left <= 0 || s.ctx.Err() != nil || d.Class(err) != inbox.ClassDown {
			return err
		}
	}
}
