package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// report is what a run came to.
type report struct {
	Orders      int   `json:"orders"`
	Published   int64 `json:"published"`
	Deliveries  int64 `json:"deliveries"`
	Processed   int64 `json:"processed"`
	Duplicates  int64 `json:"duplicates"`
	DeadLetters int64 `json:"dead_letters"` // that the day left, one a consumer and order
	Redriven    int64 `json:"redriven"`     // of them sent back to their queues
	CameBack    int64 `json:"came_back"`    // of these died again
	Resolved    int64 `json:"resolved"`     // not sent: processed already
	Left        int64 `json:"left"`         // dead letters at the end
	Lost        int   `json:"lost"`
	Doubled     int   `json:"doubled"`

	books []book
}

// book is one consumer's effects, counted in its own table.
type book struct {
	name                   string
	effects, lost, doubled int
}

// holds tells whether every invariant held: no order lost, none doubled; the
// letters that could be done are done; and what is left is the broken message, for
// each consumer.
func (r report) holds() bool {
	broken, undone := int64(len(consumers)), int64(foreign(r.Orders))
	return r.Lost == 0 && r.Doubled == 0 && r.Duplicates > 0 &&
		r.DeadLetters == undone+1+broken && r.Redriven == undone+broken && r.Resolved == 1 &&
		r.CameBack == broken && r.Left == broken
}

// check counts what the consumers wrote.
func (s *shop) check(ctx context.Context) (report, error) {
	r := report{
		Orders:      s.orders,
		Published:   s.published.Load(),
		Deliveries:  s.deliveries.Load(),
		Processed:   s.outcomes[inbox.Processed].Load(),
		Duplicates:  s.outcomes[inbox.Duplicate].Load(),
		DeadLetters: s.redriven.letters,
		Redriven:    s.redriven.sent,
		CameBack:    s.redriven.back,
		Resolved:    s.redriven.resolved,
		Left:        s.redriven.left,
	}
	for _, table := range []string{"payments", "confirmations"} {
		b := book{name: table}
		err := s.db.QueryRowContext(ctx, "SELECT count(*), ?-count(DISTINCT order_id), count(*)-count(DISTINCT order_id) FROM "+table, s.orders).
			Scan(&b.effects, &b.lost, &b.doubled)
		if err != nil {
			return r, err
		}
		r.books = append(r.books, b)
	}
	b := book{name: "reservations"}
	if err := s.db.QueryRowContext(ctx, "SELECT reserved FROM stock").Scan(&b.effects); err != nil {
		return r, err
	}
	b.lost, b.doubled = max(s.orders-b.effects, 0), max(b.effects-s.orders, 0)
	r.books = append(r.books, b)
	for _, b := range r.books {
		r.Lost += b.lost
		r.Doubled += b.doubled
	}
	return r, nil
}

func (r report) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "orders\t%d\t\n", r.Orders)
	fmt.Fprintf(t, "published\t%d\ta third of them twice, and one broken message\n", r.Published)
	fmt.Fprintf(t, "deliveries\t%d\tto %d consumers, acks lost on the way\n", r.Deliveries, len(consumers))
	fmt.Fprintf(t, "processed\t%d\tclaim and writes committed together\n", r.Processed)
	fmt.Fprintf(t, "duplicates\t%d\tskipped\n", r.Duplicates)
	fmt.Fprintf(t, "dead letters\t%d\tan unknown currency, an ack lost %d times, the broken message\n", r.DeadLetters, deliveryLimit)
	fmt.Fprintf(t, "redriven\t%d\tproven new: sent again after the fix; %d paid, %d came back\n", r.Redriven, r.Redriven-r.CameBack, r.CameBack)
	fmt.Fprintf(t, "resolved\t%d\tproven processed: not sent\n", r.Resolved)
	fmt.Fprintf(t, "left\t%d\tthe broken message, for each consumer\n", r.Left)
	fmt.Fprintf(t, "\t\t\n")
	for _, b := range r.books {
		fmt.Fprintf(t, "%s\t%d effects\tlost %d, doubled %d\n", b.name, b.effects, b.lost, b.doubled)
	}
	verdict := "every order took effect once"
	if !r.holds() {
		verdict = "AN INVARIANT IS BROKEN"
	}
	fmt.Fprintf(t, "\t\t\n%s\t\t\n", verdict)
	return t.Flush()
}
