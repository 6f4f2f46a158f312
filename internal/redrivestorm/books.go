package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// errBooks: an effect is missing or there twice.
var errBooks = errors.New("the books are wrong")

// books counts every effect.
func (s *storming) books(ctx context.Context, letters *dlq.Letters) (r report, err error) {
	r = report{letters: s.letters, kills: s.killed, states: map[dlq.State]int64{}}
	runs, err := letters.Runs(ctx, 1<<20)
	if err != nil {
		return r, err
	}
	r.runs = len(runs)
	for _, run := range runs {
		if _, err := letters.Fates(ctx, run.ID); err != nil {
			return r, err
		}
	}
	for _, state := range dlq.States() {
		n, err := letters.Count(ctx, dlq.Filter{States: []dlq.State{state}})
		if err != nil {
			return r, err
		}
		if n > 0 {
			r.states[state] = n
		}
	}
	rows, err := s.db.QueryContext(ctx, "SELECT name, count(*) FROM effects GROUP BY name")
	if err != nil {
		return r, err
	}
	defer rows.Close()
	got := make(map[string]int)
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			return r, err
		}
		got[name] = n
	}
	if err := rows.Err(); err != nil {
		return r, err
	}
	for i := range s.letters {
		n, want := got[name(i)], kindOf(i).effects()
		delete(got, name(i))
		switch {
		case n < want:
			r.lost++
		case n > want:
			r.doubled++
		}
	}
	r.strange = len(got)
	if r.lost+r.doubled+r.strange > 0 {
		err = errBooks
	}
	return r, err
}

func (s *storming) deleteQueues(ctx context.Context) {
	conn, err := amqp.Dial(s.rabbit)
	if err != nil {
		fmt.Fprintln(os.Stderr, "redrivestorm: delete the queues:", err)
		return
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil || ctx.Err() != nil {
		return
	}
	for _, q := range []string{s.queue, rabbit.DeadLetterQueue(s.queue)} {
		_, _ = ch.QueueDelete(q, false, false, false)
	}
}
