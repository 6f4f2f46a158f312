// Quickstart is a shop in one process, on SQLite and an in-process broker: no
// service to start, no flag to give. Orders are paid, stock is reserved and a
// confirmation is recorded, each by a consumer of its own, while everything
// goes wrong that goes wrong with brokers:
//
//   - the producer sends a third of the orders twice;
//   - the stock service runs twice and both get every order at the same time;
//   - consumers "crash" between commit and ack, so that the broker delivers again;
//   - for one order that happens until the broker gives up and makes a letter of it;
//   - the payment service does not know a currency, and gives those orders up;
//   - one message is broken and no retry can help it.
//
// At the end of the day the payment service is mended and the dead letters, which
// were collected into a table, are redriven (letters.go): what was never done is
// done, what was done already is not sent, and the broken message comes back.
//
// Then the books are checked. The program ends with 1 when an order was lost or
// took effect twice, or when another letter is left than the broken message.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object instead of the table")
	orders := flag.Int("orders", 60, "how many orders to sell")
	flag.Parse()
	if *orders < 3 {
		fmt.Fprintln(os.Stderr, "quickstart: -orders must be 3 or more: some are sent twice, some crash")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := sell(ctx, *orders)
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
	if err := r.print(os.Stdout, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart: print the report:", err)
		os.Exit(1)
	}
	if !r.holds() {
		os.Exit(1)
	}
}

// sell runs the whole story in a folder that is gone afterwards.
func sell(ctx context.Context, orders int) (report, error) {
	dir, err := os.MkdirTemp("", "sekali-quickstart-")
	if err != nil {
		return report{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := openShop(ctx, filepath.Join(dir, "shop.db"), orders)
	if err != nil {
		return report{}, err
	}
	defer s.close()
	if err := s.day(ctx); err != nil {
		return report{}, err
	}
	return s.check(ctx)
}
