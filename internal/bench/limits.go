package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/router/rabbit"
)

// oneSession writes what the others write, in the same order, with nothing around it: no broker, no claims, one commit.
func oneSession(ctx context.Context, j *job) (err error) {
	conn, err := pgx.Connect(ctx, j.Database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	j.meter.begin()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		list := newEvents(j.seed, j.rows)
		for range j.messages {
			e, err := list.next()
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, update, e.Quantity, e.Item); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	j.meter.settleAll(j.messages)
	<-ctx.Done()
	return nil
}

// consumeBare acks on one goroutine: the client's fastest way.
func consumeBare(ctx context.Context, j *job) error {
	return consume(ctx, j, 1, func(d amqp.Delivery) error {
		err := d.Ack(false)
		j.settled("")
		return err
	})
}

func consumeOurs(ctx context.Context, j *job) (err error) {
	conn, err := rabbit.NewConnection(j.Broker, rabbit.ConnectionConfig{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	sub, err := rabbit.NewSubscriber(conn, rabbit.SubscriberConfig{Concurrency: 2 * group})
	if err != nil {
		return err
	}
	msgs, err := sub.Subscribe(ctx, j.Queue)
	if err != nil {
		return err
	}
	for msg := range msgs {
		msg.Ack()
		j.settled("")
	}
	return sub.Close()
}
