package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// run is the parent: it starts the processes, has things go wrong, and waits. All
// its state belongs to one goroutine.
type run struct {
	options

	place   *place
	procs   *processes
	servers servers
	bar     *progress

	consumers []*process // the one that runs now, or ran last, in each place
	producer  *process
	resender  *process // with -adopt
	sent      int      // orders that the broker has confirmed, all copies of them
	released  int      // orders that the producer may send
	undone    int      // effects that wait for a letter to be redriven
	heard     time.Time
	again     []comeback
	restarts  int // of servers, under way
	restarted chan error

	report report
}

// comeback is a process that ended by itself and is to be started again.
type comeback struct {
	place int
	at    time.Time
}

// comebackAfter keeps a process that cannot start (its database is away) from
// being started all the time.
const comebackAfter = 500 * time.Millisecond

// sell runs the whole story and cleans up. The error says why there is no
// report.
func sell(ctx context.Context, o options) (r report, err error) {
	restart := map[string]string{}
	if o.restartBroker {
		restart["rabbitmq"] = rabbitVariable
	}
	if o.restartDB {
		restart["postgres"] = postgresVariable
	}
	s := &run{options: o, bar: o.bar, restarted: make(chan error)}
	if len(restart) > 0 {
		if s.servers, err = findServers(ctx, restart); err != nil {
			return r, err
		}
	}
	if s.place, err = newPlace(ctx, driverNames[o.driver], o.adopt); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.place.clear(ctx)) }()
	s.procs = newProcesses()
	defer s.procs.close()
	defer s.bar.hide()
	defer s.killAll()

	s.report = report{Driver: o.driver, Orders: o.messages, Poison: o.poison, Group: o.group, Restarts: []string{}, Problems: []string{}}
	if o.adopt {
		s.report.Adoption = &adoption{}
	}
	start := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("%s are over", o.timeout))
	defer cancel()
	if err := s.trade(limited); err != nil {
		if limited.Err() == nil || ctx.Err() != nil {
			return r, err
		}
		s.report.problemf("%s", err) // the books tell more
	}
	s.killAll()
	s.report.Seconds = float64(time.Since(start).Milliseconds()) / 1000
	books, err := s.place.check(ctx, o.messages)
	if err != nil {
		return r, err
	}
	s.report.judge(books, o.kills)
	return s.report, nil
}

// trade returns when all orders are handled, no queue holds anything and no
// consumer runs.
func (r *run) trade(ctx context.Context) error {
	for service := range handlers {
		for range r.processes {
			c := &process{role: service}
			if r.options.adopt {
				c.release = byHand
			}
			if r.poison > 0 && service == poisoned {
				c.release = flawed
			}
			r.consumers = append(r.consumers, c)
		}
	}
	if err := r.startConsumers(ctx); err != nil {
		return err
	}
	if err := r.startProducer(); err != nil {
		return err
	}
	story := r.disturb
	if r.options.adopt {
		story = r.adopt
	}
	if err := story(ctx); err != nil {
		return err
	}
	r.undone = r.poison
	if err := r.finish(ctx); err != nil || r.poison == 0 {
		return err
	}
	return r.redrive(ctx)
}

func (r *run) startConsumers(ctx context.Context) error {
	for i := range r.consumers {
		if err := r.startConsumer(i); err != nil {
			return err
		}
	}
	return r.until(ctx, "the services to start", func() bool {
		for _, c := range r.consumers {
			if !c.ready {
				return false
			}
		}
		return true
	})
}

func (r *run) startConsumer(i int) (err error) {
	r.consumers[i], err = r.procs.start(r.settings(r.consumers[i]))
	return err
}

// startProducer starts one that knows only what was confirmed as a whole.
func (r *run) startProducer() (err error) {
	r.producer, err = r.procs.start(r.settings(&process{role: producerRole}))
	if err == nil && r.released > r.sent {
		r.tellProducer()
	}
	return err
}

func (r *run) settings(c *process) settings {
	return settings{
		Role: c.role, Release: c.release, Driver: r.place.driver, Database: r.place.database, Broker: r.place.broker, Topic: r.place.topic,
		From: r.sent, Messages: r.messages, Poison: r.poison, Group: r.group, Verbose: r.verbose,
	}
}

// release lets the producer send all orders below n.
func (r *run) release(n int) {
	if n > r.released {
		r.released = n
		r.tellProducer()
	}
}

func (r *run) tellProducer() {
	// One that has died is started again, and told then.
	_, _ = io.WriteString(r.producer.stdin, strconv.Itoa(r.released)+"\n")
}

// until takes the news until cond holds.
func (r *run) until(ctx context.Context, what string, cond func() bool) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case n := <-r.procs.news:
			if err := r.take(n); err != nil {
				return err
			}
		case err := <-r.restarted:
			r.restarts--
			if err != nil {
				return err
			}
		case <-tick.C:
			if err := r.comeBack(); err != nil {
				return err
			}
			r.bar.show(r.report.Processed)
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
	return nil
}

// take notes one thing that a child said.
func (r *run) take(n news) error {
	if n.end != nil {
		return r.ended(n)
	}
	r.heard = time.Now()
	word, rest, _ := strings.Cut(n.line, " ")
	if r.report.Adoption != nil {
		r.report.Adoption.take(word, n.from)
	}
	switch word {
	case lineReady:
		n.from.ready = true
	case lineDelivered:
		n.from.inFlight++
		r.report.Deliveries++
	case lineSettled:
		n.from.inFlight--
	case lineEnforces:
		n.from.enforces = true
	case linePublished:
		r.report.Published++
	case lineSent:
		sent, err := strconv.Atoi(rest)
		if err != nil {
			return fmt.Errorf("read %q from the producer: %w", n.line, err)
		}
		r.sent = sent
	case inbox.Processed.String():
		n.from.worked = true
		r.report.Processed++
		if rest != "" && rest != "1" {
			r.report.Grouped++
		}
	case inbox.Duplicate.String():
		n.from.worked = true
		r.report.Duplicates++
	}
	return nil
}

// ended starts a child again unless its end was asked for.
func (r *run) ended(n news) error {
	c := n.from
	c.ended, c.sigkilled, c.succeeded = true, c.killed && bySIGKILL(n.end), n.end.Success()
	if c.stopping {
		return nil
	}
	if c == r.producer {
		if !c.sigkilled {
			return fmt.Errorf("the producer ended by itself: %s: %s", n.end, n.last)
		}
		return r.startProducer()
	}
	for i, other := range r.consumers {
		if other != c {
			continue
		}
		if c.sigkilled {
			return r.startConsumer(i)
		}
		if len(r.report.Restarts) == 0 {
			// While a server is away a process cannot start; else nothing may end one.
			r.report.problemf("a process of %s ended by itself: %s: %s", c.role, n.end, n.last)
		}
		r.again = append(r.again, comeback{i, time.Now().Add(comebackAfter)})
	}
	return nil
}

// comeBack starts processes again that ended by themselves.
func (r *run) comeBack() error {
	for len(r.again) > 0 && time.Now().After(r.again[0].at) {
		i := r.again[0].place
		r.again = r.again[1:]
		if err := r.startConsumer(i); err != nil {
			return err
		}
	}
	return nil
}

// killAll ends whatever still runs, and returns when it has ended.
func (r *run) killAll() {
	r.again = nil
	all := r.consumers
	for _, c := range []*process{r.producer, r.resender} {
		if c != nil {
			all = append([]*process{c}, all...)
		}
	}
	for _, c := range all {
		if c.cmd == nil || c.ended {
			continue
		}
		c.stopping = true
		_ = c.kill()
	}
	for _, c := range all {
		for c.cmd != nil && !c.ended {
			_ = r.take(<-r.procs.news) // of a child that is stopping: no error
		}
	}
	for ; r.restarts > 0; r.restarts-- {
		if err := <-r.restarted; err != nil { // leave no server half restarted
			r.report.problemf("%s", err)
		}
	}
}
