package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// memberPoint is the savepoint before a member of a group.
const memberPoint = Savepoint + "_member"

// Check implements inbox.Session.
func (s *session) Check(ctx context.Context) error {
	if err := s.ready(ctx, false); err != nil {
		return err
	}
	s.renew()
	return nil
}

// Clean implements inbox.Session.
func (s *session) Clean() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.sent
}

// renew forgets what the last handler did.
func (s *session) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doomed, s.refused, s.unjudged, s.prepared, s.sent, s.marked = nil, false, false, false, false, false
	s.points = Points{}
	s.shared = true
}

// Savepoint implements inbox.Session.
func (s *session) Savepoint(ctx context.Context) error {
	if _, err := s.tx.ExecContext(ctx, "SAVEPOINT "+memberPoint); err != nil {
		return s.because(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marked = true
	return nil
}

// RollbackTo implements inbox.Session.
func (s *session) RollbackTo(ctx context.Context) error {
	s.mu.Lock()
	doomed, undone := s.doomed, s.undoneNow()
	s.mu.Unlock()
	if undone && doomed != nil {
		return s.because(doomed)
	}
	_, err := s.tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+memberPoint)
	switch {
	case err == nil:
		s.renew()
		return nil
	case s.store.d.NoSavepoint(err):
		s.spoilt = true
		return fmt.Errorf("%w: %w", inbox.ErrEnded, err)
	case errors.Is(err, sql.ErrTxDone):
		return s.vanished(err)
	}
	return s.because(err)
}

// Undo implements inbox.Session.
func (s *session) Undo(ctx context.Context, cs ...inbox.Claim) error {
	n, err := s.store.exec(ctx, s.tx, func(b *Binder) string { return Delete(b, s.store.o.Table, cs) })
	if err == nil && n != int64(len(cs)) {
		err = fmt.Errorf("take back %d claims: %d were there", len(cs), n)
	}
	return Because(s.ctx, err)
}

func (s *session) because(err error) error { return Because(s.ctx, err) }

// Delete makes a DELETE of claims.
func Delete(b *Binder, t Table, cs []inbox.Claim) string {
	return "DELETE FROM " + t.Claims + " WHERE " + Join(cs, " OR ", func(_ int, c inbox.Claim) string {
		return "(consumer_name = " + b.Text(c.Consumer) + " AND message_key = " + b.Text(c.Key) + ")"
	})
}

// DeleteInserted makes a DELETE of claims that are still the insertion that was
// made at that time; micros reads a column in microseconds.
func DeleteInserted(b *Binder, t Table, rs []inbox.Record, micros func(column string) string) string {
	return "DELETE FROM " + t.Claims + " WHERE " + Join(rs, " OR ", func(_ int, r inbox.Record) string {
		return "(consumer_name = " + b.Text(r.Claim.Consumer) + " AND message_key = " + b.Text(r.Claim.Key) +
			" AND " + micros("processed_at") + " = " + b.Int(r.ProcessedAt.UnixMicro()) + ")"
	})
}

// CheckGroup refuses groups over transactions that a Begin func makes for one
// tenant each.
func CheckGroup(c inbox.Config, begins bool) error {
	if begins && c.Group > 1 && c.Tenant == nil {
		return errors.New("Group with Begin: set Tenant too, so that only messages of one tenant share a transaction")
	}
	return nil
}
