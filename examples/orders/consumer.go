package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/router"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// concurrency is how many orders one process handles at once, each on a
// connection of the pool, unless they share transactions (-group).
const concurrency = 8

// flawed is a release of the stock service that gives gifts up, see -poison; ""
// is the one that does everything.
const flawed = "flawed"

// A handler knows nothing of duplicates: it writes through the transaction that
// holds the claim, and returns errors.
var handlers = map[string]func(ctx context.Context, tx inbox.DBTX, o order, release string) error{
	"stock": func(ctx context.Context, tx inbox.DBTX, o order, release string) error {
		if o.Gift && release == flawed {
			return inbox.Permanent(errors.New("gift wrap is not in stock")) // a letter, no retry
		}
		_, err := tx.ExecContext(ctx, "UPDATE stock SET n = n - 1 WHERE item = $1", o.Item)
		return err
	},
	"mail": func(ctx context.Context, tx inbox.DBTX, o order, _ string) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO mails (order_id, item) VALUES ($1, $2)", o.ID, o.Item)
		return err
	},
}

// serve is one process of a service. It returns after ctx ended, when the
// handlers that ran have finished.
func serve(ctx context.Context, service string, s settings, w *watch) error {
	db, err := sql.Open(s.Driver, s.Database)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(concurrency)
	db.SetMaxIdleConns(concurrency) // or the pool reconnects all the time
	box, err := pginbox.Open(ctx, db, pginbox.Config{Config: inbox.Config{Service: service, Group: s.Group, Hooks: w.hooks(), Logger: w.log}})
	if err != nil {
		return err
	}
	c := router.Config{
		Topics:   rabbit.PubSub(service), // a queue of its own for each service
		Topology: &rabbit.Topology{},     // declare what is missing
		Logger:   w.log,
	}
	if s.Group <= 1 {
		c.Concurrency = concurrency
	}
	svc, err := router.New(s.Broker, box, c)
	if err != nil {
		return err
	}
	w.router(svc)                                                            // for the table at the end; a service does without
	if err := svc.Handle(s.Topic, handler(service, s.Release)); err != nil { //nolint:contextcheck // each message brings its own
		return err
	}
	return svc.Run(ctx)
}

// handler unpacks a message for a service.
func handler(service, release string) message.NoPublishHandlerFunc {
	return func(msg *message.Message) error {
		var o order
		if err := json.Unmarshal(msg.Payload, &o); err != nil {
			return inbox.Permanent(fmt.Errorf("order cannot be read: %w", err)) // a letter, no retry
		}
		tx, err := inbox.Tx(msg.Context())
		if err != nil {
			return err
		}
		return handlers[service](msg.Context(), tx, o, release)
	}
}
