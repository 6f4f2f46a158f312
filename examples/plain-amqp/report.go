package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/router/rabbit"
)

// report is what a run came to.
type report struct {
	payments, sent, bookings int
	lost, doubled            int
	left, letters            int
}

// holds tells whether each payment was booked once and the broken one is where it
// can be found.
func (r *report) holds() bool {
	return r.lost == 0 && r.doubled == 0 && r.left == 0 && r.letters == 1
}

func (s *shop) check(ctx context.Context, payments, sent int) (*report, error) {
	r := &report{payments: payments, sent: sent}
	err := s.db.QueryRowContext(ctx, "SELECT count(*), $1::integer - count(DISTINCT payment), count(*) - count(DISTINCT payment) FROM bookings", payments).
		Scan(&r.bookings, &r.lost, &r.doubled)
	if err != nil {
		return nil, fmt.Errorf("check the bookings: %w", err)
	}
	err = s.onChannel(func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(s.queue, true, false, false, false, nil)
		if err != nil {
			return err
		}
		dlq, err := ch.QueueDeclarePassive(rabbit.DeadLetterQueue(s.queue), true, false, false, false, nil)
		r.left, r.letters = q.Messages, dlq.Messages
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look at the queues: %w", err)
	}
	return r, nil
}

func (r *report) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "payments\t%d\t\n", r.payments)
	fmt.Fprintf(t, "messages\t%d\ta third of them copies, one broken\n", r.sent)
	fmt.Fprintf(t, "bookings\t%d\tlost %d, doubled %d\n", r.bookings, r.lost, r.doubled)
	fmt.Fprintf(t, "left in the queue\t%d\t\n", r.left)
	fmt.Fprintf(t, "dead letters\t%d\tthe broken one\n", r.letters)
	verdict := "every payment was booked once"
	if !r.holds() {
		verdict = "THE BOOKS DO NOT HOLD"
	}
	fmt.Fprintf(t, "\t\t\n%s\t\t\n", verdict)
	return t.Flush()
}
