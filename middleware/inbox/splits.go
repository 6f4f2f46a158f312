package inbox

import (
	"context"
	"errors"
	"sync"
)

// splits remembers claims whose mark could not be written, or of which it could
// not be found out whether they need one (the database went away in that
// moment). The mark is written before the next copy is judged: the bare claim in
// the table would make it a Duplicate. A claim that is not in the table needs
// none, and the copy runs.
type splits struct {
	mu sync.Mutex
	m  map[flight]struct{}
}

func (s *splits) add(c Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = make(map[flight]struct{})
	}
	s.m[flight{c.Consumer, c.Key}] = struct{}{}
}

func (s *splits) remove(c Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, flight{c.Consumer, c.Key})
}

func (s *splits) has(c Claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.m[flight{c.Consumer, c.Key}]
	return ok
}

// markSplit marks a claim whose transaction the handler ended. It does not
// depend on the run's context. The error it returns is what Do returns.
func (b *Inbox) markSplit(ctx context.Context, c Claim, cause error) error {
	err := errors.Join(ErrSplit, cause)
	if c.Key == "" {
		return &Error{Op: "run without a claim", Claim: c, Class: ClassPermanent, Err: err}
	}
	b.splits.add(c)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if merr := b.store.Split(ctx, []Claim{c}, nil); merr != nil {
		b.config.Logger.ErrorContext(ctx, "claim could not be marked split: a restart before the next copy would take it for processed",
			"consumer", c.Consumer, "key", c.Key, "err", merr)
		return &Error{Op: "claim", Claim: c, Class: ClassPermanent, Err: errors.Join(err, merr)}
	}
	b.splits.remove(c)
	return &Error{Op: "claim", Claim: c, Class: ClassPermanent, Err: err}
}

// remark writes a mark that is still owed. Nil when none is.
func (b *Inbox) remark(ctx context.Context, c Claim) error {
	if !b.splits.has(c) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.config.LockWait)
	defer cancel()
	if err := b.store.Split(ctx, []Claim{c}, nil); err != nil {
		return &Error{Op: "mark claim split", Claim: c, Class: ClassDown, Err: err}
	}
	b.splits.remove(c)
	return nil
}
