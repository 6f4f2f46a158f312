package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// report is what a run came to.
type report struct {
	orders, sent, lostAcks int
	processed, duplicates  int64
	reservations           int
	lost, doubled          int
	left, letters          int
}

// holds tells whether each order took effect once and the broken one is where it
// can be found.
func (r *report) holds() bool {
	// A letter whose ack got lost is there a second time.
	return r.lost == 0 && r.doubled == 0 && r.left == 0 && r.duplicates > 0 && (r.letters == 1 || r.letters == 2)
}

func (s *shop) check(ctx context.Context, orders, sent int) (*report, error) {
	r := &report{
		orders: orders, sent: sent, lostAcks: int(s.lostAcks.Load()),
		processed: s.outcomes[inbox.Processed].Load(), duplicates: s.outcomes[inbox.Duplicate].Load(),
	}
	err := s.db.QueryRowContext(ctx, "SELECT count(*), $1::integer - count(DISTINCT order_id), count(*) - count(DISTINCT order_id) FROM reservations", orders).
		Scan(&r.reservations, &r.lost, &r.doubled)
	if err != nil {
		return nil, fmt.Errorf("check the reservations: %w", err)
	}
	err = s.onChannel(func(ch *amqp.Channel) error {
		for i, n := range []*int{&r.left, &r.letters} {
			q, err := ch.QueueDeclarePassive(s.queues()[i], true, false, false, false, nil)
			if err != nil {
				return err
			}
			*n = q.Messages
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look at the queues: %w", err)
	}
	return r, nil
}

func (r *report) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "orders\t%d\t\n", r.orders)
	fmt.Fprintf(t, "messages\t%d\ta third of them copies, one broken\n", r.sent)
	fmt.Fprintf(t, "acks lost\t%d\tafter the commit\n", r.lostAcks)
	fmt.Fprintf(t, "processed\t%d\tclaim and writes committed together\n", r.processed)
	fmt.Fprintf(t, "duplicates\t%d\tskipped\n", r.duplicates)
	fmt.Fprintf(t, "reservations\t%d\tlost %d, doubled %d\n", r.reservations, r.lost, r.doubled)
	fmt.Fprintf(t, "left in the queue\t%d\t\n", r.left)
	fmt.Fprintf(t, "dead letters\t%d\tthe broken one\n", r.letters)
	verdict := "every order took effect once"
	if !r.holds() {
		verdict = "THE BOOKS DO NOT HOLD"
	}
	fmt.Fprintf(t, "\t\t\n%s\t\t\n", verdict)
	return t.Flush()
}
