package main

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// payAfter differs from payBefore in one line.
func payAfter(die func()) func(ctx context.Context, d amqp.Delivery) error {
	return func(ctx context.Context, d amqp.Delivery) error {
		tx, err := inbox.Tx(ctx) // 1: before, "tx := db". The transaction holds the claim of d's key
		if err != nil {
			return err
		}
		p, err := read(d.Body)
		if err != nil {
			return inbox.Permanent(err) // worth it, not needed: no retry can help
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO bookings (payment, cents) VALUES ($1, $2)", p.ID, p.Cents)
		die()
		return err
	}
}

// loopAfter differs from loopBefore in two lines. Beside it, once in the service:
// an inbox (pginbox.Open) and a publisher for letters (rabbit.NewPublisher), see
// openShop.
func (s *shop) loopAfter(ctx context.Context, deliveries <-chan amqp.Delivery, die func()) error {
	handle, err := rabbit.Handle(ctx, s.box, rabbit.HandleConfig{Queue: s.queue, Letters: s.letters}, payAfter(die)) // 2: before, "pay := payBefore(...)"
	if err != nil {
		return fmt.Errorf("handle queue %q: %w", s.queue, err)
	}
	for d := range deliveries {
		handle(d) // 3: before, pay and then ack or nack: handle settles
	}
	return nil
}
