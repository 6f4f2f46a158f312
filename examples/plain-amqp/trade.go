package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// payment is what the producer sends.
type payment struct {
	ID    int `json:"id"`
	Cents int `json:"cents"`
}

func read(body []byte) (p payment, err error) {
	if err := json.Unmarshal(body, &p); err != nil {
		return p, fmt.Errorf("payment cannot be read: %w", err)
	}
	return p, nil
}

// send publishes the payments, every third of them twice, and a broken one. It
// returns how many messages were sent.
func (s *shop) send(ctx context.Context, payments int) (sent int, err error) {
	err = s.onChannel(func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		publish := func(id string, body []byte) error {
			confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", s.queue, true, false, amqp.Publishing{
				MessageId: id, // the idempotency key: the same for every copy
				Body:      body, DeliveryMode: amqp.Persistent, ContentType: "application/json",
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
		for id := range payments {
			body, err := json.Marshal(payment{ID: id, Cents: 100 + id})
			if err != nil {
				return err
			}
			for range 1 + (id+1)%3/2 {
				if err := publish(fmt.Sprintf("payment-%d", id), body); err != nil {
					return err
				}
			}
		}
		return publish("payment-broken", []byte("{no payment"))
	})
	return sent, err
}

// consume runs the loop until the queue is empty, on a new channel whenever the
// old one has died.
func (s *shop) consume(ctx context.Context, before bool) error {
	handled := 0
	for {
		ch, err := s.broker.Channel()
		if err != nil {
			return err
		}
		// Every 25th time the channel dies right after the booking was written.
		var calling sync.Mutex // one call at a time on a channel that dies
		die := func() {
			calling.Lock()
			defer calling.Unlock()
			if handled++; handled%25 == 0 {
				_ = ch.Close()
			}
		}
		deliveries, err := ch.Consume(s.queue, "loop", false, false, false, false, nil)
		if err != nil {
			return err
		}
		stopWatching := s.watch(ctx, ch, &calling)
		if before {
			s.loopBefore(ctx, deliveries, die)
		} else {
			err = s.loopAfter(ctx, deliveries, die)
		}
		// What came over a channel that died is in the queue again.
		done := stopWatching() && !ch.IsClosed()
		_ = ch.Close()
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if done {
			return nil
		}
	}
}

// watch ends the loop when the queue is empty: the consumer is cancelled, which
// closes the channel of deliveries when all of them are handled. The returned
// func tells whether that was so.
func (s *shop) watch(ctx context.Context, ch *amqp.Channel, calling *sync.Mutex) (stop func() (empty bool)) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan bool, 1)
	go func() {
		empty := false
		defer func() { ended <- empty }()
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for interrupted := false; !empty && !interrupted && !ch.IsClosed(); {
			select {
			case <-tick.C:
			case <-ctx.Done():
				interrupted = true
			}
			calling.Lock()
			q, err := ch.QueueDeclarePassive(s.queue, true, false, false, false, nil)
			empty = err == nil && q.Messages == 0
			if empty || interrupted {
				_ = ch.Cancel("loop", false)
			}
			calling.Unlock()
		}
	}()
	return func() bool { cancel(); return <-ended }
}
