package main

import (
	"context"
	"errors"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/report"
	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// redrive plans, looks whether all is there, sends, and tells what came of it.
func (a *app) redrive(ctx context.Context, f redriveFlags, ids []string) error {
	chosen, err := f.filter.filter(ids)
	if err != nil {
		return err
	}
	config, err := f.config(a, chosen)
	if err != nil {
		return err
	}
	if !f.given(ids) {
		config.Filter.All = true
	}
	l, err := a.letters(ctx, dlq.Config{AllowLossOnCrash: true, BirthHeader: f.birth, BirthSkew: f.birthSkew})
	if err != nil {
		return err
	}
	plan, err := l.Plan(ctx, config)
	if err != nil {
		return l.explain(err)
	}
	var b *broker
	if !f.dryRun || a.hasBroker() {
		if b, err = a.broker(ctx); err != nil {
			return err
		}
	}
	targets, err := a.targets(ctx, l, b, plan)
	if err != nil {
		return err
	}
	if f.dryRun {
		return a.dryRun(plan, targets)
	}
	if err := targets.fit(); err != nil {
		return err
	}
	for _, warning := range targets.warnings() {
		a.sayf("sekali: warning: %s", report.Printable(warning))
	}
	if !f.given(ids) {
		if err := a.confirm(ctx, "This sends "+plural(plan.Sent, "letter")+" and resolves "+plural(plan.Resolved, "letter")+": all that there are"); err != nil {
			return err
		}
	}
	pub, err := b.queues()
	if err != nil {
		return b.explain(err)
	}
	bar := report.NewProgress(a.stderr, "letters")
	config.Progress = func(r dlq.Run) { bar.Show(r.Counts.Looked, plan.Looked) }
	run, err := l.Redrive(ctx, pub, config)
	bar.End()
	return a.ended(ctx, l, run, err)
}

// resumeRun goes on with a run.
func (a *app) resumeRun(ctx context.Context, f redriveFlags) error {
	l, err := a.letters(ctx, dlq.Config{AllowLossOnCrash: true, BirthHeader: f.birth, BirthSkew: f.birthSkew})
	if err != nil {
		return err
	}
	was, err := l.Run(ctx, f.resume)
	switch {
	case err != nil:
		return l.explain(err)
	case was.State == dlq.Done: // nothing is left to be sent
		return a.ended(ctx, l, was, nil)
	}
	b, err := a.broker(ctx)
	if err != nil {
		return err
	}
	pub, err := b.queues()
	if err != nil {
		return b.explain(err)
	}
	bar := report.NewProgress(a.stderr, "letters")
	run, err := l.Resume(ctx, pub, f.resume, dlq.ResumeConfig{KeepGoing: f.keepGoing, Progress: func(r dlq.Run) { bar.Show(r.Counts.Looked, 0) }})
	bar.End()
	return a.ended(ctx, l, run, err)
}

func (a *app) cancelRun(ctx context.Context, f redriveFlags) error {
	note, err := a.note(f.why)
	if err != nil {
		return err
	}
	l, err := a.letters(ctx, dlq.Config{AllowLossOnCrash: true})
	if err != nil {
		return err
	}
	run, err := l.Cancel(ctx, f.cancel, dlq.Note{Who: note.Who, Why: note.Why})
	if err != nil {
		return l.explain(err)
	}
	p := a.printer()
	return p.Object(newRunOut(run, nil), func() {
		p.Linef("Cancelled: run %s. What it sent (%s) stays sent.", run.ID, plural(run.Counts.Sent, "letter"))
		p.Linef("Next: letters left in sending are taken up by the next redrive: sekali dlq list --state sending")
	})
}

// queues is the publisher whose topics are queues.
func (b *broker) queues() (middleware.Confirmed, error) {
	pub, err := rabbit.NewPublisher(b.conn, rabbit.PublisherConfig{})
	if err != nil {
		return nil, err
	}
	return pub.ToQueues(), nil
}

// ended prints what a run did and what is left to do.
func (a *app) ended(ctx context.Context, l *openLetters, run dlq.Run, err error) error {
	interrupted := err != nil && ctx.Err() != nil
	if err != nil && (run.ID == "" || !interrupted && !errors.Is(err, dlq.ErrPaused) && !errors.Is(err, dlq.ErrCancelled)) {
		if run.ID != "" {
			a.sayf("sekali: run %s stopped; to go on: sekali dlq redrive --resume %s", run.ID, run.ID)
		}
		if interrupted {
			return leftf("interrupted before anything was sent")
		}
		return l.explain(err)
	}
	if err := a.summary(run); err != nil {
		return err
	}
	switch {
	case interrupted:
		return leftf("interrupted: run %s stopped, nothing is lost or doubled. To go on: sekali dlq redrive --resume %s; to end it: sekali dlq redrive --cancel %s --why ...", run.ID, run.ID, run.ID)
	case errors.Is(err, dlq.ErrPaused):
		return leftf("run %s paused: %s. See why they come back (sekali dlq kinds), mend it, then: sekali dlq redrive --resume %s", run.ID, run.Reason, run.ID)
	case errors.Is(err, dlq.ErrCancelled):
		return leftf("run %s was cancelled by somebody else: %s", run.ID, run.Reason)
	case left(run.Counts):
		return leftf("some letters stay, see above")
	}
	return nil
}

// left tells whether a letter still needs somebody.
func left(c dlq.Counts) bool {
	n := c.Parked + c.Copies + c.Failed + c.Unconfirmed + c.Held
	for _, stayed := range c.Stayed {
		n += stayed
	}
	return n > 0
}
