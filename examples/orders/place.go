package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/router/rabbit"
)

const (
	postgresVariable = "SEKALI_POSTGRES_URL"
	rabbitVariable   = "SEKALI_RABBITMQ_URL"
)

// startStock of each item; large enough for any number of orders.
const startStock = 1_000_000

// place is what one run has to itself: a database, an exchange and queues. Runs
// beside each other do not meet.
type place struct {
	driver   string // of database/sql
	server   string // URL of the PostgreSQL server
	database string // URL of the own database
	name     string // of the own database
	broker   string
	topic    string
	db       *sql.DB
}

// newPlace makes the database. The queues are declared by the services, unless
// they were there before.
func newPlace(ctx context.Context, driver string, adopt bool) (*place, error) {
	p := &place{driver: driver, server: os.Getenv(postgresVariable), broker: os.Getenv(rabbitVariable)}
	for variable, value := range map[string]string{postgresVariable: p.server, rabbitVariable: p.broker} {
		if value == "" {
			return nil, fmt.Errorf(`%s is not set: run scripts/services up && eval "$(scripts/services env)", or set it to the URL of a server of your own`, variable)
		}
	}
	var token [4]byte
	_, _ = rand.Read(token[:]) // never fails
	p.name = "sekali_orders_" + hex.EncodeToString(token[:])
	p.topic = p.name
	u, err := url.Parse(p.server)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%s cannot be read as postgres://user:password@host:port/database", postgresVariable)
	}
	u.Path = "/" + p.name
	p.database = u.String()
	if err := p.onServer(ctx, "CREATE DATABASE "+p.name); err != nil {
		return nil, fmt.Errorf("create a database on the server of %s: %w", postgresVariable, err)
	}
	if err := p.furnish(ctx, adopt); err != nil {
		return nil, errors.Join(err, p.clear(ctx))
	}
	return p, nil
}

// furnish makes the tables: ours by Migrate, and the shop's, with adopt also the
// tables and queues that were there before the inbox.
func (p *place) furnish(ctx context.Context, adopt bool) error {
	var err error
	if p.db, err = sql.Open(p.driver, p.database); err != nil {
		return err
	}
	if err := pginbox.Migrate(ctx, p.db, pginbox.Config{}); err != nil {
		return err
	}
	statements := []string{
		"CREATE TABLE stock (item TEXT PRIMARY KEY, n INTEGER NOT NULL)",
		// No key: a mail that is sent twice shall be seen, not refused.
		"CREATE TABLE mails (order_id INTEGER NOT NULL, item TEXT NOT NULL)",
		fmt.Sprintf("INSERT INTO stock SELECT 'item-' || lpad(i::text, 2, '0'), %d FROM generate_series(0, %d) AS i", startStock, items-1),
	}
	if adopt {
		for service := range handlers {
			statements = append(statements, handledSchema(service))
		}
	}
	for _, statement := range statements {
		if _, err := p.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("make the shop's tables: %w", err)
		}
	}
	if !adopt {
		return nil
	}
	return p.onBroker(func(ch *amqp.Channel) error {
		for service := range handlers {
			if err := declareByHand(ch, service, p.topic); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *place) onServer(ctx context.Context, statement string) error {
	db, err := sql.Open(p.driver, p.server)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, statement)
	return err
}

// queue of a service.
func (p *place) queue(service string) string { return queueName(service, p.topic) }

func queueName(service, topic string) string { return rabbit.PubSub(service).Queue(topic) }

// queues of a service where orders may wait, without its DLQ.
func (p *place) queues(service string) []string {
	names := []string{p.queue(service)}
	for _, step := range rabbit.DefaultRetrySteps() {
		names = append(names, rabbit.RetryQueue(names[0], step))
	}
	return names
}

// waiting counts the messages in queues that nobody holds.
func (p *place) waiting(names ...string) (n int, err error) {
	err = p.onBroker(func(ch *amqp.Channel) error {
		for _, name := range names {
			q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			if err != nil {
				return fmt.Errorf("look at queue %q: %w", name, err)
			}
			n += q.Messages
		}
		return nil
	})
	return n, err
}

func (p *place) onBroker(f func(ch *amqp.Channel) error) error {
	conn, err := amqp.DialConfig(p.broker, amqp.Config{Dial: amqp.DefaultDial(5 * time.Second)})
	if err != nil {
		return fmt.Errorf("connect to the broker of %s: %w", rabbitVariable, err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return f(ch)
}

// clear deletes the database, the queues and the exchange, also when ctx has
// ended. All children must have ended.
func (p *place) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var errs []error
	if p.db != nil {
		errs = append(errs, p.db.Close())
	}
	errs = append(errs, p.onServer(ctx, "DROP DATABASE IF EXISTS "+p.name+" WITH (FORCE)"))
	errs = append(errs, p.onBroker(func(ch *amqp.Channel) error {
		for service := range handlers {
			for _, name := range append(p.queues(service), rabbit.DeadLetterQueue(p.queue(service))) {
				if _, err := ch.QueueDelete(name, false, false, false); err != nil {
					return err
				}
			}
		}
		return ch.ExchangeDelete(p.topic, false, false)
	}))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}
