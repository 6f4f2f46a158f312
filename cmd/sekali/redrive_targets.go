package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/dlq"
)

// target is a queue that letters would be put into.
type target struct {
	queue     string
	letters   int64
	missing   bool
	itself    bool // a dead letter queue that letters are collected from
	known     bool // the broker was asked
	ready     int
	consumers int
}

type targets []target

// targets looks at the queues of a plan. b may be nil: then nothing is known.
func (a *app) targets(ctx context.Context, l *openLetters, b *broker, plan dlq.Plan) (targets, error) {
	var all targets
	for _, queue := range sorted(plan.Queues) {
		t := target{queue: queue, letters: plan.Queues[queue]}
		some, err := l.List(ctx, dlq.Filter{Queue: queue, Limit: 1}, dlq.NewestFirst, 0)
		if err != nil {
			return nil, l.explain(err)
		}
		t.itself = len(some) > 0 && some[0].Source == queue
		all = append(all, t)
	}
	if b == nil || len(all) == 0 {
		return all, nil
	}
	return all, b.inspect(ctx, a.flags.timeout, all)
}

// inspect asks the broker for the depth and the consumers of queues.
func (b *broker) inspect(ctx context.Context, timeout time.Duration, all targets) error {
	conn, err := amqp.DialConfig(b.url, amqp.Config{Locale: "en_US", Dial: func(network, addr string) (net.Conn, error) {
		dialer := net.Dialer{Timeout: timeout}
		c, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return c, c.SetDeadline(time.Now().Add(timeout))
	}})
	if err != nil {
		return b.explain(err)
	}
	defer conn.Close()
	for i := range all {
		channel, err := conn.Channel()
		if err != nil {
			return b.explain(err)
		}
		q, err := channel.QueueDeclarePassive(all[i].queue, true, false, false, false, nil)
		var ae *amqp.Error
		switch {
		case errors.As(err, &ae) && ae.Code == amqp.NotFound:
			all[i].missing, all[i].known = true, true
		case err != nil:
			return b.explain(err)
		default:
			all[i].ready, all[i].consumers, all[i].known = q.Messages, q.Consumers, true
			_ = channel.Close()
		}
	}
	return nil
}

// fit refuses queues that letters cannot be put into.
func (ts targets) fit() error {
	var faults []string
	for _, t := range ts {
		switch {
		case t.missing:
			faults = append(faults, fmt.Sprintf("queue %q does not exist: create it, or leave its %s out with --queue", t.queue, plural(t.letters, "letter")))
		case t.itself:
			faults = append(faults, fmt.Sprintf("queue %q is a dead letter queue itself: its %s would only be collected again; nothing tells where they died, look at one with sekali dlq show", t.queue, plural(t.letters, "letter")))
		}
	}
	if len(faults) > 0 {
		return failf("nothing was sent: %s", strings.Join(faults, "; "))
	}
	return nil
}

func (ts targets) warnings() (all []string) {
	for _, t := range ts {
		if t.known && !t.missing && t.consumers == 0 {
			all = append(all, fmt.Sprintf("queue %q has no consumer: letters will wait there until its service is started", t.queue))
		}
	}
	return all
}
