package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
)

// trade publishes all orders and returns when every consumer has settled them.
func (s *shop) trade(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var collecting sync.WaitGroup
	collecting.Go(func() {
		for msg := range s.dead {
			s.collected = append(s.collected, msg)
			msg.Ack()
		}
	})
	go func() { cancel(s.router.Run(ctx)) }()
	select {
	case <-s.router.Running():
	case <-ctx.Done():
		return fmt.Errorf("start the consumers: %w", context.Cause(ctx))
	}

	var producing sync.WaitGroup
	send := func(eventID string, payload []byte) {
		producing.Go(func() {
			// Each sending is a message of its own to the broker; only the event_id
			// says that two of them are the same order.
			msg := message.NewMessage(watermill.NewUUID(), payload)
			msg.Metadata.Set("event_id", eventID)
			s.published.Add(1)
			if err := s.broker.Publish(topic, msg); err != nil {
				cancel(fmt.Errorf("publish: %w", err))
			}
		})
	}
	for id := range s.orders {
		payload, err := json.Marshal(order{ID: id, Cents: 100 + id})
		if err != nil {
			return err
		}
		eventID := fmt.Sprintf("order-%d", id)
		send(eventID, payload)
		if id%3 == 0 {
			send(eventID, payload)
		}
	}
	send("order-broken", []byte("{this is no order"))

	settled := make(chan struct{})
	go func() { producing.Wait(); close(settled) }()
	select {
	case <-settled:
	case <-ctx.Done():
		return fmt.Errorf("orders are not settled: %w", context.Cause(ctx))
	}
	if err := s.router.Close(); err != nil {
		return err
	}
	if err := s.broker.Close(); err != nil {
		return err
	}
	collecting.Wait()
	return nil
}
