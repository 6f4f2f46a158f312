package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// firstTime notes an event in the service's own table of handled events and
// tells whether it was the first to do so. Another transaction that has noted the
// same event and not yet ended is waited for: this row is the lock that all
// processes of the service share, whatever else they do.
func firstTime(ctx context.Context, tx inbox.DBTX, service, eventID string) (bool, error) {
	res, err := tx.ExecContext(ctx, "INSERT INTO "+handledTable(service)+" (event_id) VALUES ($1) ON CONFLICT (event_id) DO NOTHING", eventID)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// handledTable is the hand-written table of a service. It knows no consumers, no
// fingerprints, and has another key than the inbox's.
func handledTable(service string) string { return "handled_events_" + service }

func handledSchema(service string) string {
	return "CREATE TABLE " + handledTable(service) + " (event_id TEXT PRIMARY KEY, handled_at TIMESTAMPTZ NOT NULL DEFAULT now())"
}

// serveByHand is one process of a service as it was before the inbox: a consume
// loop on amqp091-go, and the table above in each business transaction.
func serveByHand(ctx context.Context, service string, s settings, w *watch) error {
	db, err := sql.Open(s.Driver, s.Database)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(concurrency)
	db.SetMaxIdleConns(concurrency)
	conn, err := amqp.Dial(s.Broker)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(concurrency, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(queueName(service, s.Topic), "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	w.tell(lineReady)
	var loops sync.WaitGroup
	errs := make([]error, concurrency)
	for i := range concurrency {
		loops.Go(func() { errs[i] = loopByHand(ctx, db, service, deliveries, w) })
	}
	loops.Wait()
	return errors.Join(errs...)
}

// declareByHand makes the queue of a service as it was there since long: with
// none of the arguments that ours have.
func declareByHand(ch *amqp.Channel, service, topic string) error {
	if err := ch.ExchangeDeclare(topic, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
		return err
	}
	queue := queueName(service, topic)
	if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		return err
	}
	return ch.QueueBind(queue, "", topic, false, nil)
}

// loopByHand ends with ctx; what it has not settled goes back to the queue when
// the connection closes.
func loopByHand(ctx context.Context, db *sql.DB, service string, deliveries <-chan amqp.Delivery, w *watch) error {
	for ctx.Err() == nil {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return errors.New("the channel is closed")
			}
			w.tell(lineDelivered)
			first, err := handleByHand(context.WithoutCancel(ctx), db, service, d)
			switch {
			case err != nil:
				w.log.Warn("back to the queue", "err", err)
				err = d.Nack(false, true)
			default:
				out := inbox.Duplicate
				if first {
					out = inbox.Processed
				}
				w.tell(out.String())
				err = d.Ack(false)
			}
			w.tell(lineSettled)
			if err != nil {
				return err
			}
		case <-ctx.Done():
		}
	}
	return nil
}

func handleByHand(ctx context.Context, db *sql.DB, service string, d amqp.Delivery) (first bool, err error) {
	var o order
	if err := json.Unmarshal(d.Body, &o); err != nil {
		return false, fmt.Errorf("order cannot be read: %w", err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }()
	eventID, _ := d.Headers["event_id"].(string)
	if first, err = firstTime(ctx, tx, service, eventID); err != nil || !first {
		return false, err
	}
	if err := handlers[service](ctx, tx, o, byHand); err != nil {
		return false, err
	}
	return true, tx.Commit()
}
