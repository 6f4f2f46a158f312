package main

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var errNotConfirmed = errors.New("the broker did not take a message")

// publishing is a persistent message as any producer would send it.
func publishing(e event) (amqp.Publishing, error) {
	body, err := json.Marshal(e)
	return amqp.Publishing{
		DeliveryMode: amqp.Persistent, ContentType: "application/json", MessageId: e.ID,
		Headers: amqp.Table{headerKey: e.ID}, Body: body,
	}, err
}

// publish fills the queue; all messages are confirmed when it returns.
func (w *world) publish(ctx context.Context, j *job) error {
	return w.onChannel(func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		list := newEvents(j.seed, j.rows)
		list.failEvery, list.timely = j.failEvery, j.timely
		var flight []*amqp.DeferredConfirmation
		for i := range j.messages {
			e, err := list.next()
			if err != nil {
				return err
			}
			p, err := publishing(e)
			if err != nil {
				return err
			}
			c, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", w.name, true, false, p)
			if err != nil {
				return err
			}
			flight = append(flight, c)
			if len(flight) < 1000 && i < j.messages-1 {
				continue
			}
			for _, c := range flight {
				if ok, err := c.WaitContext(ctx); err != nil || !ok {
					return errors.Join(errNotConfirmed, err)
				}
			}
			flight = flight[:0]
		}
		return nil
	})
}

// pace publishes at a steady rate, each message with the time at which it is sent; the first one alone, until it is settled:
// then the system is up. It returns when all are confirmed.
func (w *world) pace(ctx context.Context, j *job, perSecond int) error {
	return w.onChannel(func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		list := newEvents(j.seed, j.rows)
		ticker := time.NewTicker(time.Second / time.Duration(perSecond))
		defer ticker.Stop()
		var flight []*amqp.DeferredConfirmation
		for i := range j.messages {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if i == 1 {
				select {
				case <-j.meter.begun:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			e, err := list.next()
			if err != nil {
				return err
			}
			p, err := publishing(e)
			if err != nil {
				return err
			}
			p.Headers[headerSent] = strconv.FormatInt(time.Now().UnixNano(), 10)
			c, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", w.name, true, false, p)
			if err != nil {
				return err
			}
			flight = append(flight, c)
		}
		for _, c := range flight {
			if ok, err := c.WaitContext(ctx); err != nil || !ok {
				return errors.Join(errNotConfirmed, err)
			}
		}
		return nil
	})
}
