package main

import (
	"context"
	"database/sql"

	amqp "github.com/rabbitmq/amqp091-go"
)

// payBefore books a payment: the work of a message.
func payBefore(db *sql.DB, die func()) func(ctx context.Context, d amqp.Delivery) error {
	return func(ctx context.Context, d amqp.Delivery) error {
		tx := db
		p, err := read(d.Body)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO bookings (payment, cents) VALUES ($1, $2)", p.ID, p.Cents)
		die()
		return err
	}
}

// loopBefore is the loop as it was. What is acked was booked; what was booked and
// not acked is booked again.
func (s *shop) loopBefore(ctx context.Context, deliveries <-chan amqp.Delivery, die func()) {
	pay := payBefore(s.db, die)

	for d := range deliveries {
		if err := pay(ctx, d); err != nil {
			_ = d.Nack(false, false) // to the dead-letter queue
		} else {
			_ = d.Ack(false)
		}
	}
}
