package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/lib/pq"
	amqp "github.com/rabbitmq/amqp091-go"
)

// mill runs Watermill's router on watermill-amqp. A subscriber there hands out one message at a time, so the way to more is
// more of them on the queue. They share a connection, each has a channel with its part of the prefetch.
func mill(subscribers int, prepare func(ctx context.Context, db *sql.DB) (message.NoPublishHandlerFunc, message.HandlerMiddleware, error)) func(ctx context.Context, j *job) error {
	return func(ctx context.Context, j *job) (err error) {
		db, err := openPq(ctx, j, subscribers)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		handle, dedup, err := prepare(ctx, db)
		if err != nil {
			return err
		}
		config := wamqp.NewDurableQueueConfig(j.Broker)
		config.Queue.Arguments = amqp.Table{amqp.QueueTypeArg: j.Kind}
		config.Consume.Qos.PrefetchCount = prefetch / subscribers
		sub, err := wamqp.NewSubscriber(config, watermill.NopLogger{})
		if err != nil {
			return err
		}
		router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
		if err != nil {
			return err
		}
		router.AddMiddleware(j.watch)
		if dedup != nil {
			router.AddMiddleware(dedup)
		}
		for i := range subscribers {
			router.AddConsumerHandler(fmt.Sprintf("stock-%d", i), j.Queue, sub, handle)
		}
		return errors.Join(router.Run(ctx), sub.Close())
	}
}

// millByHand is the recipe: the key and the effect in one transaction. Its statements are prepared: that is the least work.
func millByHand(ctx context.Context, db *sql.DB) (message.NoPublishHandlerFunc, message.HandlerMiddleware, error) {
	claim, err := db.PrepareContext(ctx, claimByHand)
	if err != nil {
		return nil, nil, err
	}
	write, err := db.PrepareContext(ctx, update)
	if err != nil {
		return nil, nil, err
	}
	return func(msg *message.Message) error {
		e, err := decode(msg.Payload)
		if err != nil {
			return err
		}
		ctx := msg.Context()
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // after Commit it does nothing
		res, err := tx.StmtContext(ctx, claim).ExecContext(ctx, e.ID)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err
		}
		if _, err := tx.StmtContext(ctx, write).ExecContext(ctx, e.Quantity, e.Item); err != nil {
			return err
		}
		return tx.Commit()
	}, nil, nil
}

// millDeduplicator drops copies that this process has seen within a minute, also of messages whose handler failed.
func millDeduplicator(ctx context.Context, db *sql.DB) (message.NoPublishHandlerFunc, message.HandlerMiddleware, error) {
	write, err := db.PrepareContext(ctx, update)
	if err != nil {
		return nil, nil, err
	}
	seen, err := middleware.NewMapExpiringKeyRepository(time.Minute)
	if err != nil {
		return nil, nil, err
	}
	d := &middleware.Deduplicator{KeyFactory: middleware.NewMessageHasherFromMetadataField(headerKey), Repository: seen, Timeout: time.Second}
	return func(msg *message.Message) error {
		e, err := decode(msg.Payload)
		if err != nil {
			return err
		}
		_, err = write.ExecContext(msg.Context(), e.Quantity, e.Item)
		return err
	}, d.Middleware, nil
}

// openPq opens so many connections before the clock runs. With binary_parameters lib/pq spends one trip on a statement with
// arguments instead of two.
func openPq(ctx context.Context, j *job, connections int) (*sql.DB, error) {
	where, err := url.Parse(j.Database)
	if err != nil {
		return nil, errors.New("the database's URL cannot be read")
	}
	query := where.Query()
	query.Set("binary_parameters", "yes")
	where.RawQuery = query.Encode()
	connector, err := pq.NewConnector(where.String())
	if err != nil {
		return nil, errors.New("the database's URL cannot be read")
	}
	if j.Trip > 0 {
		connector.Dialer(&dialer{trip: j.Trip})
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections) // or the pool reconnects all the time
	var open []*sql.Conn
	for range connections {
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
		open = append(open, conn)
	}
	for _, conn := range open {
		if err := conn.Close(); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}
