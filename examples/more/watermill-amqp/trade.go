package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// order is what the producer sends.
type order struct {
	ID   int    `json:"id"`
	Item string `json:"item"`
}

// trade sends all orders and returns when all are settled and the service has
// ended.
func (s *shop) trade(ctx context.Context, orders int) (sent int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	running := make(chan error, 1)
	go func() { running <- s.router.Run(ctx) }()
	select {
	case <-s.router.Running():
	case err := <-running:
		return 0, fmt.Errorf("start the service: %w", err)
	}
	if sent, err = s.send(ctx, orders); err != nil {
		return sent, fmt.Errorf("send orders: %w", err)
	}
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for s.settled.Load() < int64(sent) {
		select {
		case <-tick.C:
		case err := <-running:
			return sent, errors.Join(errors.New("the service ended before its work"), err, context.Cause(ctx))
		case <-patience.C:
			return sent, s.end() // the books will show it
		}
	}
	return sent, s.end()
}

// send publishes as a service in another language does. A third of the orders
// go out twice; the last one is broken.
func (s *shop) send(ctx context.Context, orders int) (sent int, err error) {
	err = s.onChannel(func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		publish := func(id string, body []byte) error {
			confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", s.queue, true, false, amqp.Publishing{
				MessageId: id, // the idempotency key: the same for every copy
				Headers:   amqp.Table{"schema-version": int32(3)},
				Body:      body, DeliveryMode: amqp.Persistent,
			})
			if err != nil {
				return err
			}
			if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
				return errors.Join(errors.New("not confirmed"), err)
			}
			sent++
			return nil
		}
		for id := range orders {
			body, err := json.Marshal(order{ID: id, Item: "lamp"})
			if err != nil {
				return err
			}
			name := fmt.Sprintf("order-%d", id)
			if err := publish(name, body); err != nil {
				return err
			}
			if id%3 == 0 {
				if err := publish(name, body); err != nil {
					return err
				}
			}
		}
		return publish("order-broken", []byte("{no order"))
	})
	return sent, err
}
