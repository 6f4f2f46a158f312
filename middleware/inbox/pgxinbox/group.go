package pgxinbox

import (
	"context"
	"fmt"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/postgres"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// memberPoint is the savepoint before a member of a group.
const memberPoint = sqlstore.Savepoint + "_member"

// Check implements inbox.Session. What the server sent with its last answer tells
// all that can be known of statements whose text was judged.
func (s *session) Check(ctx context.Context) error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if err := s.usable(); err != nil {
		return err
	}
	if s.tx.status() == statusOpen && !s.judged() {
		if err := s.prove(ctx); err != nil {
			return err
		}
	}
	if s.doomed != nil {
		return &inbox.SwallowedError{Err: s.doomed}
	}
	s.renew()
	return nil
}

// renew forgets what the last handler did; that the connection was handed out
// stays. The turn is held.
func (s *session) renew() {
	s.doomed, s.refused, s.unjudged, s.sent = nil, false, false, false
	s.clashed.Store(false)
	s.points = sqlstore.Points{}
	s.shared = true
}

// Clean implements inbox.Session.
func (s *session) Clean() bool {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return !s.sent && !s.clashed.Load() && !s.raw.Load()
}

// Savepoint implements inbox.Session.
func (s *session) Savepoint(ctx context.Context) error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	_, err := s.tx.conn.Exec(ctx, "savepoint "+memberPoint)
	return sqlstore.Because(s.ctx, err)
}

// RollbackTo implements inbox.Session.
func (s *session) RollbackTo(ctx context.Context) error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	_, err := s.tx.conn.Exec(ctx, "rollback to savepoint "+memberPoint)
	switch {
	case err == nil:
		s.renew()
		return nil
	case postgres.NoSavepoint(err):
		return fmt.Errorf("%w: %w", inbox.ErrEnded, err)
	}
	return sqlstore.Because(s.ctx, err)
}

// Undo implements inbox.Session.
func (s *session) Undo(ctx context.Context, cs ...inbox.Claim) error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	b := postgres.Parameters()
	tag, err := s.tx.Exec(ctx, sqlstore.Delete(b, s.store.table, cs), b.Args...)
	if err == nil && tag.RowsAffected() != int64(len(cs)) {
		err = fmt.Errorf("take back %d claims: %d were there", len(cs), tag.RowsAffected())
	}
	return sqlstore.Because(s.ctx, err)
}
