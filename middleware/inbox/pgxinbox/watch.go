package pgxinbox

import (
	"errors"
	"fmt"

	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// admit refuses a statement, or notes what cannot be judged of it. The turn is
// held.
func (s *session) admit(query string) (sqlstore.Marks, error) {
	v := s.store.grammar.Judge(query)
	s.sent = true
	if v.Refused == nil && s.shared {
		v.Refused = s.points.Foreign(v.Marks)
	}
	switch {
	case v.Refused != nil:
		// A handler that goes on as if it had been undone must not be committed.
		s.refused = true
		return nil, s.doom(v.Refused)
	case s.open != nil && s.open.isOpen():
		return nil, s.doom(errUnread)
	case s.tx.status() == statusFailed && !v.Undoes:
		// The server would only answer that the transaction is aborted; the first
		// cause says more.
		return nil, fmt.Errorf("statement not sent, the transaction failed before: %w", s.cause())
	}
	s.unjudged = s.unjudged || v.Unjudged
	return v.Marks, nil
}

func (s *session) cause() error {
	if s.doomed == nil {
		return errors.New("a statement failed")
	}
	return s.doomed
}

// doom notes an error after which the transaction must not be committed unless
// a ROLLBACK TO undoes it, and returns what the handler is told.
func (s *session) doom(err error) error {
	switch {
	case s.doomed == nil:
		s.doomed = err
		return err
	case errors.Is(err, s.doomed):
		return err
	}
	return fmt.Errorf("%w (and then: %w)", s.doomed, err)
}

// seen takes the result of a handler's statement and returns what the handler is
// given.
func (s *session) seen(ms sqlstore.Marks, err error) error {
	if err != nil {
		return s.doom(err)
	}
	if !s.refused {
		s.doomed = s.points.Done(ms, s.doomed)
	}
	return nil
}
