package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// poisoned is the service that -poison makes fail.
const poisoned = "stock"

// desk is an operator with dead letters. From a shell, `sekali dlq collect` and
// `sekali dlq redrive` do the same.
type desk struct {
	conn    *rabbit.Connection
	letters *dlq.Letters
}

// openDesk makes the table of letters, here in the services' own database. The
// inbox is theirs: it tells which letters were processed after all.
func openDesk(ctx context.Context, p *place) (*desk, error) {
	if err := dlq.Migrate(ctx, p.db); err != nil {
		return nil, err
	}
	box, err := pginbox.Open(ctx, p.db, pginbox.Config{})
	if err != nil {
		return nil, err
	}
	d := &desk{}
	if d.letters, err = dlq.Open(ctx, p.db, dlq.Config{Inboxes: map[string]*inbox.Inbox{"shop": box}}); err != nil {
		return nil, err
	}
	d.conn, err = rabbit.NewConnection(p.broker, rabbit.ConnectionConfig{ReconnectMax: time.Second})
	return d, err
}

// collect moves letters from a DLQ into the table until enough says so. What it
// had in hand then is stored, or back in the DLQ.
func (d *desk) collect(ctx context.Context, queue string, enough func() error) error {
	sub, err := rabbit.NewSubscriber(d.conn, rabbit.SubscriberConfig{Concurrency: concurrency})
	if err != nil {
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	router.AddConsumerHandler("letters", queue, sub, d.letters.Collector(dlq.CollectorConfig{}))
	ended := make(chan error, 1)
	go func() { ended <- router.Run(ctx) }()
	select {
	case <-router.Running():
		return errors.Join(enough(), router.Close(), <-ended)
	case err := <-ended: // it could not start
		return errors.Join(err, router.Close())
	}
}

// redrive sends what is proven new back to the queue it died in, and resolves
// what was processed. What is sent has its old key: the claim decides.
func (d *desk) redrive(ctx context.Context) (dlq.Run, error) {
	pub, err := rabbit.NewPublisher(d.conn, rabbit.PublisherConfig{})
	if err != nil {
		return dlq.Run{}, err
	}
	run, err := d.letters.Redrive(ctx, pub.ToQueues(), dlq.RedriveConfig{Filter: dlq.Filter{All: true}})
	return run, errors.Join(err, pub.Close())
}

// open counts the letters that somebody still has to care for.
func (d *desk) open(ctx context.Context, run dlq.Run) (int64, error) {
	// First what became of those that were sent: the processed ones are resolved.
	if _, err := d.letters.Fates(ctx, run.ID); err != nil {
		return 0, err
	}
	return d.letters.Count(ctx, dlq.Filter{States: []dlq.State{dlq.Waiting, dlq.Sending, dlq.Sent, dlq.Parked}})
}

// redrive is the end of a run with -poison: no consumer runs, and the DLQ holds
// what the flawed release failed at, some of it several times.
func (r *run) redrive(ctx context.Context) error {
	d, err := openDesk(ctx, r.place)
	if err != nil {
		return err
	}
	defer func() { _ = d.conn.Close() }()
	if err := r.collect(ctx, d); err != nil {
		return err
	}
	letters, err := d.letters.Count(ctx, dlq.Filter{All: true})
	if err != nil {
		return err
	}
	r.report.DeadLetters = int(letters)

	for _, c := range r.consumers {
		c.release = "" // mended
	}
	if err := r.startConsumers(ctx); err != nil {
		return err
	}
	var run dlq.Run
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run, err = d.redrive(ctx)
	}()
	waited := r.until(ctx, "the letters to be redriven", func() bool { return isClosed(ended) })
	<-ended // it ends with ctx, too
	if err := errors.Join(waited, err); err != nil {
		return err
	}
	r.report.Redriven = int(run.Counts.Sent)
	r.undone = 0
	if err := r.drain(ctx); err != nil {
		return err
	}
	if err := r.collect(ctx, d); err != nil { // what died again
		return err
	}
	left, err := d.open(ctx, run)
	r.report.Left = int(left)
	return err
}

// collect empties the DLQ. Whether it is really empty shows when nobody consumes
// from it any more.
func (r *run) collect(ctx context.Context, d *desk) error {
	queue := rabbit.DeadLetterQueue(r.place.queue(poisoned))
	for {
		err := d.collect(ctx, queue, func() error {
			return r.untilEmpty(ctx, queue)
		})
		if err != nil {
			return fmt.Errorf("collect letters: %w", err)
		}
		if n, err := r.place.waiting(queue); err != nil || n == 0 {
			return err
		}
	}
}

func (r *run) untilEmpty(ctx context.Context, queue string) (err error) {
	var looked time.Time
	waited := r.until(ctx, "the letters to be collected", func() bool {
		if time.Since(looked) < look {
			return false
		}
		looked = time.Now()
		var n int
		n, err = r.place.waiting(queue)
		return err != nil || n == 0
	})
	return errors.Join(waited, err)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
