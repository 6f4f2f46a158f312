package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// disturb has one thing go wrong in each part of the orders, at a random moment
// of the work on it. The producer gets the next part only then, so that the
// misfortunes spread over the whole run and find the processes at work.
func (r *run) disturb(ctx context.Context) error {
	var plan []func(context.Context) error
	for range r.kills {
		plan = append(plan, r.killConsumer)
	}
	if r.kills > 0 {
		plan = slices.Insert(plan, len(plan)/2, r.killProducer)
	}
	if r.restartBroker {
		plan = slices.Insert(plan, len(plan)/3, r.restartServer("rabbitmq"))
	}
	if r.restartDB {
		plan = slices.Insert(plan, len(plan)*2/3, r.restartServer("postgres"))
	}
	part := func(i int) int { return r.messages * (i + 1) / (len(plan) + 1) }
	r.release(part(0))
	for i, misfortune := range plan {
		// Less than half of what the part gives to do.
		goal := r.report.Processed + 1 + rand.IntN(max(r.messages/(len(plan)+1), 1))
		if err := r.until(ctx, "work to be done", func() bool { return r.report.Processed >= goal }); err != nil {
			return err
		}
		if err := r.until(ctx, "a consumer that has worked", func() bool {
			return slices.ContainsFunc(r.consumers, func(c *process) bool { return c.worked && !c.ended })
		}); err != nil {
			return err
		}
		r.release(part(i + 1))
		if err := misfortune(ctx); err != nil {
			return err
		}
	}
	return nil
}

// killConsumer kills a consumer that has work in hand. It counts when its state
// says that it died of SIGKILL, and when it had not reported the end of that work.
func (r *run) killConsumer(ctx context.Context) error {
	for {
		var victim *process
		err := r.until(ctx, "a consumer at work", func() bool {
			for _, i := range rand.Perm(len(r.consumers)) {
				if c := r.consumers[i]; c.worked && c.inFlight > 0 && !c.ended {
					victim = c
					return true
				}
			}
			return false
		})
		if err != nil {
			return err
		}
		if err := r.moment(ctx); err != nil {
			return err
		}
		if victim.inFlight == 0 || victim.ended {
			continue
		}
		if err := r.killed(ctx, victim); err != nil {
			return err
		}
		if victim.sigkilled && victim.inFlight > 0 {
			r.report.Kills++
			return nil
		}
	}
}

// killProducer kills it, most likely while it sends.
func (r *run) killProducer(ctx context.Context) error {
	if err := r.moment(ctx); err != nil {
		return err
	}
	victim := r.producer
	if err := r.killed(ctx, victim); err != nil {
		return err
	}
	if victim.sigkilled {
		r.report.ProducerKills++
	}
	return nil
}

func (r *run) killed(ctx context.Context, victim *process) error {
	if err := victim.kill(); err != nil && !victim.ended {
		r.report.problemf("kill %s: %s", victim.role, err)
	}
	return r.until(ctx, "a killed process to end", func() bool { return victim.ended })
}

// moment lets a random while pass, of the length of a few messages.
func (r *run) moment(ctx context.Context) error {
	end := time.Now().Add(rand.N(20 * time.Millisecond))
	return r.until(ctx, "a moment", func() bool { return time.Now().After(end) })
}

// restartServer begins the restart and lets it run beside the work.
func (r *run) restartServer(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		r.report.Restarts = append(r.report.Restarts, name)
		r.restarts++
		go func() { r.restarted <- r.servers.restart(context.WithoutCancel(ctx), name) }()
		return nil
	}
}
