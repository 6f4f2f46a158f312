package pgxinbox

import (
	"errors"
	"fmt"
)

// admit refuses a statement, or notes what cannot be judged of it. The turn is
// held.
func (s *session) admit(query string) (undoes bool, err error) {
	v := s.store.grammar.Judge(query)
	switch {
	case v.Refused != nil:
		// A handler that goes on as if it had been undone must not be committed.
		return false, s.doom(v.Refused)
	case s.open != nil && s.open.isOpen():
		return false, s.doom(errUnread)
	case s.tx.status() == statusFailed && !v.Undoes:
		// The server would only answer that the transaction is aborted; the first
		// cause says more.
		return false, fmt.Errorf("statement not sent, the transaction failed before: %w", s.cause())
	}
	s.unjudged = s.unjudged || v.Unjudged
	return v.Undoes, nil
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
func (s *session) seen(undoes bool, err error) error {
	if err != nil {
		return s.doom(err)
	}
	if undoes {
		s.doomed = nil
	}
	return nil
}
