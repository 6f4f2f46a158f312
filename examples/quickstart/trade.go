package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
)

// day is one day of the shop: trade, and then the letters.
func (s *shop) day(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(s.router.Run(ctx)) }()
	select {
	case <-s.router.Running():
	case <-ctx.Done():
		return fmt.Errorf("start the consumers: %w", context.Cause(ctx))
	}
	// Before its consumer was registered, an absent claim proves nothing: what died
	// in the same millisecond would not be known as new.
	time.Sleep(10 * time.Millisecond)
	if err := s.trade(ctx); err != nil {
		return err
	}
	if err := s.redrive(ctx); err != nil {
		return err
	}
	return s.router.Close()
}

// trade publishes all orders and returns when every consumer has settled them.
func (s *shop) trade(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var producing sync.WaitGroup
	send := func(eventID string, payload []byte) {
		// Each sending is a message of its own to the broker; only the event_id
		// says that two of them are the same order.
		msg := message.NewMessage(watermill.NewUUID(), payload)
		msg.Metadata.Set("event_id", eventID)
		s.published.Add(1)
		for _, c := range consumers { // a queue each, as a fanout exchange does it
			producing.Go(func() {
				if err := s.broker.Publish(queue(c.name), msg); err != nil {
					cancel(fmt.Errorf("publish: %w", err))
				}
			})
		}
	}
	for id := range s.orders {
		o := order{ID: id, Cents: 100 + id, Currency: "EUR"}
		if isForeign(id) {
			o.Currency = "IDR"
		}
		payload, err := json.Marshal(o)
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
		return nil
	case <-ctx.Done():
		return fmt.Errorf("orders are not settled: %w", context.Cause(ctx))
	}
}

// isForeign tells orders in a currency that the payment service learns later: one
// of ten.
func isForeign(id int) bool { return id%10 == 2 }

func foreign(orders int) (n int) {
	for id := range orders {
		if isForeign(id) {
			n++
		}
	}
	return n
}
