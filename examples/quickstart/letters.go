package main

import (
	"context"

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/middleware"
)

// redriven is what became of the day's letters.
type redriven struct {
	letters  int64 // that the day left
	sent     int64 // nothing of them was committed: sent again
	back     int64 // and they died again
	resolved int64 // processed already: not sent
	left     int64 // still open
}

// redrive is what an operator does once the cause is mended. The letters are in
// the table already, put there by the collectors; each is judged by what the inbox
// can prove, and goes back to the one queue that it died in.
func (s *shop) redrive(ctx context.Context) (err error) {
	everything := dlq.Filter{All: true}
	if s.redriven.letters, err = s.letters.Count(ctx, everything); err != nil {
		return err
	}
	s.mended.Store(true)
	run, err := s.letters.Redrive(ctx, middleware.Trust(s.broker), dlq.RedriveConfig{Filter: everything})
	if err != nil {
		return err
	}
	fates, err := s.letters.Fates(ctx, run.ID)
	if err != nil {
		return err
	}
	s.redriven.sent, s.redriven.resolved, s.redriven.back = run.Counts.Sent, run.Counts.Resolved, fates.Back
	open := dlq.Filter{States: []dlq.State{dlq.Waiting, dlq.Sending, dlq.Sent, dlq.Parked}}
	s.redriven.left, err = s.letters.Count(ctx, open)
	return err
}
