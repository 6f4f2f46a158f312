package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// adoption is what a run with -adopt tells besides.
type adoption struct {
	ByHand    int     `json:"by_hand"`    // orders that the old release handled
	WouldSkip int     `json:"would_skip"` // copies that the inbox, observing, would have skipped
	WouldLose int     `json:"would_lose"` // and that the old table did not know
	Resent    int     `json:"resent"`     // messages sent again between the steps
	Noticed   float64 `json:"noticed"`    // seconds until every running process enforced
}

func (a *adoption) take(word string, from *process) {
	switch word {
	case lineWouldSkip:
		a.WouldSkip++
	case lineWouldLose:
		a.WouldLose++
	case linePublished:
		if from.role == resenderRole {
			a.Resent++
		}
	case inbox.Processed.String():
		if from.release == byHand {
			a.ByHand++
		}
	}
}

func (a *adoption) problems() (found []string) {
	if a.WouldLose > 0 {
		found = append(found, fmt.Sprintf("the inbox would have skipped %d orders that nobody had handled", a.WouldLose))
	}
	if a.ByHand == 0 || a.WouldSkip == 0 || a.Resent == 0 || a.Noticed == 0 {
		found = append(found, "a step of the adoption saw no message")
	}
	return found
}

// sample is how many orders are sent again between two steps.
const sample = 50

// adopting is the plan of a run with -adopt. In each of its phases processes are
// killed, and orders of all earlier phases are sent again.
func (r *run) adopting() (plan []func(context.Context) error) {
	again := func(ctx context.Context) error { return r.resend(ctx, max(r.sent/sample, 1)) }
	rolling := func(release string) (steps []func(context.Context) error) {
		for i := range r.consumers {
			steps = append(steps, func(ctx context.Context) error { return r.replace(ctx, i, release) }, again)
		}
		return steps
	}
	phases := [][]func(context.Context) error{
		{again},         // all by hand
		rolling(beside), // old and new side by side
		{again},         // all new, observing
		{r.enforce},     // noticed by running processes
		rolling(after),  // the old table is no longer written
	}
	for p, steps := range phases {
		plan = append(plan, steps[0])
		for k := range r.kills {
			if k%len(phases) == p {
				plan = append(plan, r.killBusy)
			}
		}
		plan = append(plan, steps[1:]...)
		if p == len(phases)/2 && r.kills > 0 {
			plan = append(plan, r.killProducer)
		}
	}
	return plan
}

// adoptSteps is how many parts the orders fall into, at least.
func (o options) adoptSteps() int { return 4*len(handlers)*o.processes + 6 + o.kills }

// adopt takes one step after the other while orders flow. At the end every order
// is sent once more: whoever handled it, it is known.
func (r *run) adopt(ctx context.Context) error {
	plan := r.adopting()
	for i, step := range plan {
		part := r.messages / len(plan)
		goal := r.report.Processed + 1 + rand.IntN(max(part, 1))
		if i == len(plan)-1 {
			part = r.messages
		}
		r.release(min(r.released+part, r.messages))
		err := r.until(ctx, "work to be done", func() bool { return r.report.Processed >= goal || time.Since(r.heard) > quiet })
		if err != nil {
			return err
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := r.until(ctx, "the producer", func() bool { return r.sent == r.messages }); err != nil {
		return err
	}
	return r.resend(ctx, 1)
}

// replace starts another release in the place of a process, which finishes what
// it has in hand.
func (r *run) replace(ctx context.Context, i int, release string) error {
	old := r.consumers[i]
	old.stop()
	if err := r.until(ctx, "an old process to end", func() bool { return old.ended }); err != nil {
		return err
	}
	next := *old
	next.release = release
	r.consumers[i] = &next
	if err := r.startConsumer(i); err != nil {
		return err
	}
	return r.until(ctx, "a new process to start", func() bool { return r.consumers[i].ready })
}

// enforce switches the rows of all consumers and keeps messages coming until
// every running process has noticed.
func (r *run) enforce(ctx context.Context) error {
	start := time.Now()
	if _, err := r.place.db.ExecContext(ctx, "UPDATE sekali_consumers SET mode = 'enforce'"); err != nil {
		return fmt.Errorf("switch the mode: %w", err)
	}
	for !r.allEnforce() {
		if err := r.resend(ctx, max(r.sent/sample, 1)); err != nil {
			return err
		}
	}
	r.report.Adoption.Noticed = time.Since(start).Seconds()
	return nil
}

func (r *run) allEnforce() bool {
	for _, c := range r.consumers {
		if !c.enforces {
			return false
		}
	}
	return true
}

// killBusy kills a consumer at work, and makes work where there is too little.
func (r *run) killBusy(ctx context.Context) error {
	for {
		if err := r.startResender(ctx, max(r.sent/sample, 1)); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := r.killConsumer(limited)
		cancel()
		if waited := r.resent(ctx); waited != nil {
			return waited
		}
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

// resend sends every n-th order again that was sent before.
func (r *run) resend(ctx context.Context, n int) error {
	if err := r.startResender(ctx, n); err != nil {
		return err
	}
	return r.resent(ctx)
}

func (r *run) startResender(ctx context.Context, n int) (err error) {
	if err := r.until(ctx, "the first orders", func() bool { return r.sent > 0 }); err != nil {
		return err
	}
	s := r.settings(&process{role: resenderRole})
	s.From, s.To, s.Every = rand.IntN(n), r.sent, n
	if r.resender, err = r.procs.start(s); err == nil {
		r.resender.stopping = true // it ends by itself
	}
	return err
}

func (r *run) resent(ctx context.Context) error {
	if err := r.until(ctx, "orders to be sent again", func() bool { return r.resender.ended }); err != nil {
		return err
	}
	if !r.resender.succeeded {
		return errors.New("orders could not be sent again")
	}
	return nil
}
