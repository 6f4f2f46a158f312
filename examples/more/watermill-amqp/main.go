// Watermill-amqp keeps watermill-amqp as the transport of a Watermill service and
// makes the service idempotent all the same: config.Marshaler is ours, and the
// handlers have middleware.Stack. See wire in shop.go.
//
//	scripts/services up && eval "$(scripts/services env)"
//	go run ./examples/more/watermill-amqp
//
// A producer that is not Watermill sends orders with a message-id and an integer
// header (which watermill-amqp's own marshaler cannot read and nacks for ever),
// a third of them twice, and one order that cannot be read. Two instances of the
// service share the queue. After every fifth order the ack gets lost, as in a
// crash between commit and ack. Then the books are checked. The program ends with
// 1 when an order was lost or took effect twice.
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
	orders := flag.Int("orders", 200, "how many orders to sell")
	flag.Parse()
	if *orders < 10 {
		fmt.Fprintln(os.Stderr, "watermill-amqp: -orders must be 10 or more")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := sell(ctx, *orders)
	if err != nil {
		fmt.Fprintln(os.Stderr, "watermill-amqp:", err)
		return 1
	}
	if err := r.print(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "watermill-amqp: print the report:", err)
		return 1
	}
	if !r.holds() {
		return 1
	}
	return 0
}

// sell runs the whole story, in a database and queues of its own.
func sell(ctx context.Context, orders int) (*report, error) {
	s, err := openShop(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	sent, err := s.trade(ctx, orders)
	if err != nil {
		return nil, err
	}
	return s.check(ctx, orders, sent)
}
