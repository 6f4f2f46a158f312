package main

import (
	"context"
	"time"
)

const (
	// quiet is how long nobody has said anything when all is done.
	quiet = 300 * time.Millisecond
	// silence is how long nobody has said anything when something is missing and
	// will not come: longer than any pause of a consumer after an outage.
	silence = 30 * time.Second
	// look is the pause between two looks at the database.
	look = 200 * time.Millisecond
)

// finish waits until every order is handled, then ends the consumers and looks
// whether the queues are really empty: what a consumer held and had not settled
// is back in its queue only then.
func (r *run) finish(ctx context.Context) error {
	err := r.until(ctx, "the producer", func() bool { return r.sent == r.messages && r.restarts == 0 })
	if err != nil {
		return err
	}
	r.producer.stop()
	if err := r.until(ctx, "the producer to end", func() bool { return r.producer.ended }); err != nil {
		return err
	}
	return r.drain(ctx)
}

// drain is the end of finish, with the producer gone.
func (r *run) drain(ctx context.Context) error {
	for {
		if err := r.untilHandled(ctx); err != nil {
			return err
		}
		for _, c := range r.consumers {
			c.stop()
		}
		if err := r.until(ctx, "the services to end", r.allEnded); err != nil {
			return err
		}
		left := 0
		for service := range handlers {
			n, err := r.place.waiting(r.place.queues(service)...)
			if err != nil {
				return err
			}
			left += n
		}
		if left == 0 {
			return nil
		}
		if err := r.startConsumers(ctx); err != nil {
			return err
		}
	}
}

// untilHandled waits until each service has a claim for each order that is not
// a letter, and nobody has a delivery in hand, or until nothing happens any more.
func (r *run) untilHandled(ctx context.Context) error {
	var looked time.Time
	claims := 0
	return r.until(ctx, "the orders to be handled", func() bool {
		for _, c := range r.consumers {
			if c.inFlight > 0 && !c.ended {
				return false
			}
		}
		if len(r.again) > 0 || time.Since(r.heard) < quiet || time.Since(looked) < look {
			return false
		}
		looked = time.Now()
		lookCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if n, err := r.place.claims(lookCtx); err == nil {
			claims = n
		}
		return claims >= r.messages*len(handlers)-r.undone || time.Since(r.heard) > silence
	})
}

func (r *run) allEnded() bool {
	for _, c := range r.consumers {
		if !c.ended {
			return false
		}
	}
	return true
}
