package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/report"
	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// quiet is how long nothing may come before a queue is looked at for being empty.
const quiet = 300 * time.Millisecond

// collect moves letters until the context ends, or the queues are empty.
func (a *app) collect(ctx context.Context, l *openLetters, b *broker, queues []string, o collectOptions) error {
	slices.Sort(queues)
	queues = slices.Compact(queues)
	if err := a.collectable(ctx, b, queues); err != nil {
		return err
	}
	pub, err := rabbit.NewPublisher(b.conn, rabbit.PublisherConfig{})
	if err != nil {
		return b.explain(err)
	}
	config := dlq.CollectorConfig{Unstorable: pub.ToQueues()}
	if o.queue != "" {
		config.Queue = func(string) string { return o.queue }
	}
	handler := l.Collector(config)
	a.sayf("sekali: collecting from %s into %s. Alarms on the depth of these queues go quiet: use sekali dlq count --fail-over N instead.",
		report.Printable(strings.Join(queues, ", ")), l.source)
	if !o.untilEmpty {
		a.sayf("sekali: running until it is interrupted (Ctrl-C)")
	}

	all := make([]*collecting, len(queues))
	for i, queue := range queues {
		all[i] = &collecting{app: a, broker: b, queue: queue, handler: handler, options: o}
	}
	bar := report.NewProgress(a.stderr, "letters collected")
	done := make(chan struct{})
	var showing, running sync.WaitGroup
	showing.Go(func() { showCollected(bar, all, done) })
	errs := make([]error, len(all))
	for i, c := range all {
		running.Go(func() { errs[i] = c.run(ctx) })
	}
	running.Wait()
	close(done)
	showing.Wait()
	bar.End()
	return a.collected(ctx, b, all, errors.Join(errs...))
}

func showCollected(bar *report.Progress, all []*collecting, done <-chan struct{}) {
	tick := time.NewTicker(quiet)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			var n int64
			for _, c := range all {
				n += c.stored.Load()
			}
			bar.Show(n, 0)
		}
	}
}

// collectable refuses queues that are not there, and says where letters stay that
// cannot be stored.
func (a *app) collectable(ctx context.Context, b *broker, queues []string) error {
	var all targets
	for _, queue := range queues {
		all = append(all, target{queue: queue}, target{queue: queue + ".unstorable"})
	}
	if err := b.inspect(ctx, a.flags.timeout, all); err != nil {
		return err
	}
	for i := 0; i < len(all); i += 2 {
		if all[i].missing {
			return failf("there is no queue %q at %s: check its name (rabbitmqctl list_queues) and the virtual host in the URL", all[i].queue, b.conn.Address())
		}
		if all[i+1].missing {
			a.sayf("sekali: there is no queue %s: a letter that the database refuses stays where it is", report.Printable(all[i+1].queue))
		}
	}
	return nil
}

// collected prints what was moved and what is left.
func (a *app) collected(ctx context.Context, b *broker, all []*collecting, err error) error {
	left := make(targets, len(all))
	for i, c := range all {
		left[i].queue = c.queue
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.flags.timeout)
	defer cancel()
	lookErr := b.inspect(limited, a.flags.timeout, left)
	p := a.printer()
	failed := int64(0)
	for i, c := range all {
		failed += c.failed.Load()
		out := collectedOut{c.queue, c.stored.Load(), c.failed.Load(), left[i].ready}
		if perr := p.Object(out, func() {
			rest := "the queue is empty"
			switch {
			case lookErr != nil || !left[i].known:
				rest = "the broker does not say what is left"
			case left[i].ready > 0:
				rest = plural(left[i].ready, "letter") + " left in it"
			}
			p.Linef("Collected: %s from %s; %s.", plural(out.Collected, "letter"), report.Printable(c.queue), rest)
		}); perr != nil {
			return perr
		}
	}
	p.Linef("Next: sekali dlq kinds")
	switch {
	case err != nil && ctx.Err() == nil:
		return err
	case failed > 0:
		return leftf("%s could not be stored and went back to the queue: see the warnings above", plural(failed, "letter"))
	case ctx.Err() != nil && all[0].options.untilEmpty:
		return leftf("interrupted: what was collected is stored, the rest is still in the queues; the same command goes on")
	}
	return nil
}

// collecting is one queue.
type collecting struct {
	app     *app
	broker  *broker
	queue   string
	handler message.NoPublishHandlerFunc
	options collectOptions

	stored, failed atomic.Int64
}

// run subscribes until the context ends, or again and again until the queue is
// empty: what a subscription had taken and not handed out goes back when it ends.
func (c *collecting) run(ctx context.Context) error {
	sub, err := rabbit.NewSubscriber(c.broker.conn, rabbit.SubscriberConfig{Concurrency: c.options.concurrency})
	if err != nil {
		return c.broker.explain(err)
	}
	defer func() { _ = sub.Close() }()
	for {
		before := c.failed.Load()
		if err := c.once(ctx, sub); err != nil {
			return err
		}
		if ctx.Err() != nil || !c.options.untilEmpty {
			return nil
		}
		now := targets{{queue: c.queue}}
		if err := c.broker.inspect(ctx, c.app.flags.timeout, now); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if now[0].ready == 0 || c.failed.Load() > before {
			return nil
		}
	}
}

// once is one subscription. With untilEmpty it ends when nothing came for a while,
// or when a letter could not be stored.
func (c *collecting) once(ctx context.Context, sub *rabbit.Subscriber) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	messages, err := sub.Subscribe(ctx, c.queue)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return c.broker.explain(fmt.Errorf("collect from %q: %w", c.queue, err))
	}
	var working sync.WaitGroup
	defer working.Wait()
	idle := time.NewTimer(quiet)
	defer idle.Stop()
	busy := new(atomic.Int64)
	for {
		select {
		case msg, ok := <-messages:
			if !ok {
				return nil
			}
			busy.Add(1)
			working.Go(func() {
				defer busy.Add(-1)
				if !c.store(msg) && c.options.untilEmpty {
					stop()
				}
			})
			idle.Reset(quiet)
		case <-idle.C:
			if c.options.untilEmpty && busy.Load() == 0 {
				stop() // the channel of messages closes when all went back
			} else {
				idle.Reset(quiet)
			}
		}
	}
}

// store one letter; false when it went back.
func (c *collecting) store(msg *message.Message) bool {
	if err := c.handler(msg); err != nil {
		c.failed.Add(1)
		c.app.sayf("sekali: warning: a letter of %s could not be stored: %s", report.Printable(c.queue), report.Printable(c.app.secrets.Hide(err.Error())))
		msg.Nack()
		return false
	}
	c.stored.Add(1)
	msg.Ack()
	return true
}
