// Plain-amqp makes a consume loop on amqp091-go idempotent without turning it
// into anything else. before.go is a loop as many services have it: it books
// payments in PostgreSQL and acks. after.go is the same loop with three lines
// changed.
//
//	scripts/services up && eval "$(scripts/services env)"
//	go run ./examples/plain-amqp            # after
//	go run ./examples/plain-amqp -before    # the loop as it was
//
// A producer sends each payment, a third of them twice, and one that cannot be
// read. While they are handled the channel dies again and again, between the
// write and the ack, as it does when a connection breaks or a process crashes.
// Then the books are checked: one booking a payment, nothing left in the queue,
// the broken one in the dead-letter queue. The program ends with 1 when they do
// not hold; with -before they do not.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() { os.Exit(start()) }

func start() int {
	var o options
	flag.IntVar(&o.payments, "payments", 300, "how many payments to send")
	flag.BoolVar(&o.before, "before", false, "run the loop as it was before")
	flag.Parse()
	if o.payments < 50 {
		fmt.Fprintln(os.Stderr, "plain-amqp: -payments must be 50 or more: the channel dies after every 25")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "plain-amqp:", err)
		return 1
	}
	if err := r.print(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "plain-amqp: print the report:", err)
		return 1
	}
	if !r.holds() {
		return 1
	}
	return 0
}

type options struct {
	payments int
	before   bool
}

// run tells the whole story, in a database and queues of its own.
func run(ctx context.Context, o options) (*report, error) {
	s, err := openShop(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	sent, err := s.send(ctx, o.payments)
	if err != nil {
		return nil, fmt.Errorf("send payments: %w", err)
	}
	if err := s.consume(ctx, o.before); err != nil {
		return nil, err
	}
	return s.check(ctx, o.payments, sent)
}
