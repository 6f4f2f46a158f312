package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pgxinbox"
	"github.com/sekali-mq/sekali/router"
	"github.com/sekali-mq/sekali/router/rabbit"
)

var errForGood = errors.New("this one fails for good")

// sekaliPq is the service of the README, on lib/pq; groupOf 0 is without group commit.
func sekaliPq(groupOf int) func(ctx context.Context, j *job) error {
	return func(ctx context.Context, j *job) (err error) {
		db, err := openPq(ctx, j, connections(groupOf))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		box, err := pginbox.Open(ctx, db, pginbox.Config{Table: j.Table, Config: j.config(groupOf)})
		if err != nil {
			return err
		}
		return serve(ctx, j, box, func(msg *message.Message) error {
			tx, err := inbox.Tx(msg.Context())
			if err != nil {
				return err
			}
			return j.handle(msg.Payload, func(e event) error {
				_, err := tx.ExecContext(msg.Context(), update, e.Quantity, e.Item)
				return err
			})
		})
	}
}

// sekaliPgx is the same on pgx.
func sekaliPgx(groupOf int) func(ctx context.Context, j *job) error {
	return func(ctx context.Context, j *job) error {
		return j.pgx(ctx, groupOf, func(msg *message.Message) error {
			tx, err := pgxinbox.Tx(msg.Context())
			if err != nil {
				return err
			}
			return j.handle(msg.Payload, writing(msg.Context(), tx))
		})
	}
}

func (j *job) pgx(ctx context.Context, groupOf int, h message.NoPublishHandlerFunc) error {
	pool, err := openPgx(ctx, j, connections(groupOf))
	if err != nil {
		return err
	}
	defer pool.Close()
	box, err := pgxinbox.Open(ctx, pool, pgxinbox.Config{Table: j.Table, Config: j.config(groupOf)})
	if err != nil {
		return err
	}
	return serve(ctx, j, box, h)
}

// sekaliSet gets all new messages of a group at once.
func sekaliSet(ctx context.Context, j *job) error {
	return j.pgx(ctx, group, middleware.Set(func(ctx context.Context, msgs []*message.Message) error {
		tx, err := pgxinbox.Tx(ctx)
		if err != nil {
			return err
		}
		sums := make(map[int64]int64, len(msgs)) // an UPDATE changes each row once
		var failure error
		for _, msg := range msgs {
			err := j.handle(msg.Payload, func(e event) error { sums[e.Item] += e.Quantity; return nil })
			failure = errors.Join(failure, err)
		}
		if failure != nil && j.failBefore {
			return failure
		}
		ids := slices.Sorted(maps.Keys(sums)) // in one order, so that instances do not deadlock
		quantities := make([]int64, len(ids))
		for i, id := range ids {
			quantities[i] = sums[id]
		}
		_, err = tx.Exec(ctx, updateMany, ids, quantities)
		return cmp.Or(err, failure)
	}))
}

// serve is a service on RabbitMQ as router.New makes it.
func serve(ctx context.Context, j *job, box *inbox.Inbox, h message.NoPublishHandlerFunc) error {
	svc, err := router.New(j.Broker, box, router.Config{})
	if err != nil {
		return err
	}
	svc.Watermill().AddMiddleware(j.watch)
	if err := svc.Handle(j.Queue, h); err != nil {
		return err
	}
	return svc.Run(ctx)
}

// sekaliHandle is a plain consume loop: no Watermill.
func sekaliHandle(ctx context.Context, j *job) (err error) {
	pool, err := openPgx(ctx, j, groupConnections)
	if err != nil {
		return err
	}
	defer pool.Close()
	c := j.config(group)
	counting := c.Hooks.Done
	c.Hooks.Done = func(ctx context.Context, e inbox.Event) {
		counting(ctx, e)
		if e.Outcome == inbox.Processed {
			j.settled("")
		}
	}
	box, err := pgxinbox.Open(ctx, pool, pgxinbox.Config{Table: j.Table, Config: c})
	if err != nil {
		return err
	}
	conn, err := rabbit.NewConnection(j.Broker, rabbit.ConnectionConfig{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	letters, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	if err != nil {
		return err
	}
	handle, err := rabbit.Handle(ctx, box, rabbit.HandleConfig{Queue: j.Queue, Letters: letters}, func(ctx context.Context, d amqp.Delivery) error {
		tx, err := pgxinbox.Tx(ctx)
		if err != nil {
			return err
		}
		return j.handle(d.Body, writing(ctx, tx))
	})
	if err != nil {
		return err
	}
	return errors.Join(consume(ctx, j, 2*group, func(d amqp.Delivery) error { handle(d); return nil }), letters.Close())
}

func writing(ctx context.Context, tx pgx.Tx) func(e event) error {
	return func(e event) error {
		_, err := tx.Exec(ctx, update, e.Quantity, e.Item)
		return err
	}
}

// handle is the handler that all of them share.
func (j *job) handle(body []byte, write func(e event) error) error {
	e, err := decode(body)
	if err != nil {
		return inbox.Permanent(err)
	}
	j.ran(e)
	if e.Fail && j.failBefore {
		return inbox.Permanent(errForGood)
	}
	if err := write(e); err != nil {
		return err
	}
	if e.Fail {
		return inbox.Permanent(errForGood)
	}
	return nil
}

// connections of the pool: one for each message that is handled at once; groups share one.
func connections(groupOf int) int {
	if groupOf > 0 {
		return groupConnections
	}
	return workers
}

// config counts the runs that failed.
func (j *job) config(groupOf int) inbox.Config {
	return inbox.Config{Service: "bench", Group: groupOf, Hooks: inbox.Hooks{Done: func(_ context.Context, e inbox.Event) {
		switch {
		case e.Outcome != inbox.Failed || errors.Is(e.Err, errForGood):
		case inbox.ClassOf(e.Err) == inbox.ClassTransient:
			j.meter.undone.Add(1)
		default:
			j.meter.fail(e.Err)
		}
	}}}
}
