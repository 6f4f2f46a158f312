package rabbit

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"
)

// bounded runs a call of the client that takes no context. When ctx ends first,
// the call is left to end with its connection, which heartbeats see to.
func bounded(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// onChannel runs f on a channel of its own, so that an error closes nobody
// else's.
func (l *link) onChannel(ctx context.Context, f func(conn *amqp.Connection, ch *amqp.Channel) error) error {
	conn, err := l.get(ctx)
	if err != nil {
		return err
	}
	return bounded(ctx, func() error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		defer func() { _ = ch.Close() }()
		return f(conn, ch)
	})
}
