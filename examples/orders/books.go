package main

import (
	"context"
	"fmt"

	"github.com/sekali-mq/sekali/router/rabbit"
)

// book is what one service wrote, judged against the orders.
type book struct {
	service               string
	effects               int
	lost, doubled, claims int
	letters               int
}

// check counts in the database and in the DLQs. All children must have ended.
func (p *place) check(ctx context.Context, orders int) ([]book, error) {
	stock := book{service: "stock"}
	// Counted for each item, so that a lost order cannot hide behind a doubled one
	// of another item.
	rows, err := p.db.QueryContext(ctx, "SELECT item, $1::integer - n FROM stock", startStock)
	if err != nil {
		return nil, fmt.Errorf("check the stock: %w", err)
	}
	defer rows.Close()
	want := make(map[string]int)
	for id := range orders {
		want[itemName(id%items)]++
	}
	for rows.Next() {
		var item string
		var sold int
		if err := rows.Scan(&item, &sold); err != nil {
			return nil, fmt.Errorf("check the stock: %w", err)
		}
		stock.effects += sold
		stock.lost += max(want[item]-sold, 0)
		stock.doubled += max(sold-want[item], 0)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("check the stock: %w", err)
	}

	mail := book{service: "mail"}
	err = p.db.QueryRowContext(ctx, `
		SELECT count(*),
			$1::integer - count(DISTINCT order_id) FILTER (WHERE order_id BETWEEN 0 AND $1 - 1),
			count(*) - count(DISTINCT order_id) FROM mails`, orders).Scan(&mail.effects, &mail.lost, &mail.doubled)
	if err != nil {
		return nil, fmt.Errorf("check the mails: %w", err)
	}

	books := []book{stock, mail}
	for i := range books {
		b := &books[i]
		queue := p.queue(b.service)
		// The primary key allows one claim an order; what is to be seen is whether
		// each order has one.
		err := p.db.QueryRowContext(ctx, `
			SELECT count(*) FROM processed_messages WHERE consumer_name = $1
				AND message_key IN (SELECT 'order-' || i FROM generate_series(0, $2::integer - 1) AS i)`, queue, orders).Scan(&b.claims)
		if err != nil {
			return nil, fmt.Errorf("check the claims: %w", err)
		}
		if b.letters, err = p.waiting(rabbit.DeadLetterQueue(queue)); err != nil {
			return nil, err
		}
	}
	return books, nil
}

// claims counts all claims so far.
func (p *place) claims(ctx context.Context) (n int, err error) {
	err = p.db.QueryRowContext(ctx, "SELECT count(*) FROM processed_messages").Scan(&n)
	return n, err
}
