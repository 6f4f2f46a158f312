package main

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"
)

const claimByHand = "INSERT INTO " + byHandTable + " (event_id) VALUES ($1) ON CONFLICT DO NOTHING"

// bare consumes with amqp091-go on 32 goroutines, each with a connection of the pool. pgx prepares statements and caches them
// by itself.
func bare(handle func(ctx context.Context, pool *pgxpool.Pool, e event) error) func(ctx context.Context, j *job) error {
	return func(ctx context.Context, j *job) error {
		pool, err := openPgx(ctx, j, workers)
		if err != nil {
			return err
		}
		defer pool.Close()
		return consume(ctx, j, workers, func(d amqp.Delivery) error {
			e, err := decode(d.Body)
			if err == nil {
				j.ran(e)
				// Not ctx: what runs when it ends finishes.
				err = handle(context.WithoutCancel(ctx), pool, e)
			}
			if err != nil {
				j.meter.fail(err)
				j.meter.nacked.Add(1)
				return d.Nack(false, true)
			}
			sent, _ := d.Headers[headerSent].(string)
			j.settled(sent)
			return d.Ack(false)
		})
	}
}

// withoutClaim lets every duplicate through.
func withoutClaim(ctx context.Context, pool *pgxpool.Pool, e event) error {
	_, err := pool.Exec(ctx, update, e.Quantity, e.Item)
	return err
}

// byHand is the recipe that many write: the key and the effect in one transaction.
func byHand(ctx context.Context, pool *pgxpool.Pool, e event) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, claimByHand, e.ID)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		_, err = tx.Exec(ctx, update, e.Quantity, e.Item)
		return err
	})
}

// consume runs handle for each delivery of the queue on so many goroutines, until ctx ends.
func consume(ctx context.Context, j *job, goroutines int, handle func(d amqp.Delivery) error) (err error) {
	conn, err := amqp.Dial(j.Broker)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return err
	}
	const tag = "bench"
	deliveries, err := ch.Consume(j.Queue, tag, false, false, false, false, nil)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make(chan error, goroutines)
	for range goroutines {
		wg.Go(func() {
			for d := range deliveries {
				if err := handle(d); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	select {
	case <-ctx.Done():
	case err = <-errs:
	}
	err = errors.Join(err, ch.Cancel(tag, false)) // deliveries ends
	wg.Wait()
	return errors.Join(err, ch.Close())
}

// openPgx opens so many connections before the clock runs: those of a service are open for days.
func openPgx(ctx context.Context, j *job, connections int) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(j.Database)
	if err != nil {
		return nil, errors.New("the database's URL cannot be read")
	}
	if j.Trip > 0 {
		c.ConnConfig.DialFunc = (&dialer{trip: j.Trip}).DialContext
	}
	c.MaxConns = int32(connections) //nolint:gosec // a few
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	var open []*pgxpool.Conn
	for len(open) < connections && err == nil {
		var conn *pgxpool.Conn
		if conn, err = pool.Acquire(ctx); err == nil {
			open = append(open, conn)
		}
	}
	for _, conn := range open {
		conn.Release()
	}
	if err != nil {
		pool.Close() // waits for those that are in use
		return nil, err
	}
	return pool, nil
}
