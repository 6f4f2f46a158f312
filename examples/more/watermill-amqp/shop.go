package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	_ "github.com/lib/pq"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/router/rabbit"
)

const (
	postgresVariable = "SEKALI_POSTGRES_URL"
	rabbitVariable   = "SEKALI_RABBITMQ_URL"
)

// shop is what one run has to itself: a database, two queues and the service.
type shop struct {
	server, name string // of the database
	queue        string
	url          string // of the broker
	db           *sql.DB
	broker       *amqp.Connection // of the producer and of the check

	conn        *rabbit.Connection
	letters     *rabbit.Publisher
	subscribers []*wamqp.Subscriber
	router      *message.Router

	settled  atomic.Int64 // messages that will be acked
	lostAcks atomic.Int64
	outcomes [inbox.Unclaimed + 1]atomic.Int64
}

func openShop(ctx context.Context) (*shop, error) {
	s := &shop{server: os.Getenv(postgresVariable), url: os.Getenv(rabbitVariable)}
	for _, v := range [][2]string{{postgresVariable, s.server}, {rabbitVariable, s.url}} {
		if v[1] == "" {
			return nil, fmt.Errorf(`%s is not set: run scripts/services up && eval "$(scripts/services env)", or set it to the URL of a server of your own`, v[0])
		}
	}
	var token [4]byte
	_, _ = rand.Read(token[:]) // never fails
	s.name = "sekali_watermill_amqp_" + hex.EncodeToString(token[:])
	s.queue = s.name
	err := s.furnish(ctx)
	if err == nil {
		err = s.wire(ctx)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// wire puts the service together. What differs from a service on watermill-amqp
// alone is numbered.
func (s *shop) wire(ctx context.Context) error {
	config := wamqp.NewDurableQueueConfig(s.url)
	config.Marshaler = rabbit.DefaultMarshaler{} // 1: reads every producer's messages, keeps message-id

	// 2: the inbox, in the service's database.
	box, err := pginbox.Open(ctx, s.db, pginbox.Config{Config: inbox.Config{
		Service: "shop",
		Hooks:   inbox.Hooks{Done: func(_ context.Context, e inbox.Event) { s.outcomes[e.Outcome].Add(1) }},
	}})
	if err != nil {
		return err
	}
	// 3: where letters go. Not watermill-amqp's publisher: to it a message that no
	// queue takes is published.
	if s.conn, err = rabbit.NewConnection(s.url, rabbit.ConnectionConfig{Name: "shop"}); err != nil {
		return err
	}
	if s.letters, err = rabbit.NewPublisher(s.conn, rabbit.PublisherConfig{}); err != nil {
		return err
	}
	// 4: the stack. watermill-amqp does not tell the queue: the consumer is named.
	stack, err := middleware.NewStack(box, s.letters.ToQueues(), middleware.StackConfig{
		Config: middleware.Config{Consumer: s.queue, Queue: s.queue},
	})
	if err != nil {
		return err
	}
	if s.router, err = message.NewRouter(message.RouterConfig{}, watermill.NopLogger{}); err != nil {
		return err
	}
	s.router.AddPlugin(stack.Plugin)
	for instance := range 2 {
		sub, err := wamqp.NewSubscriber(config, watermill.NopLogger{})
		if err != nil {
			return fmt.Errorf("connect to the broker of %s: %w", rabbitVariable, err)
		}
		s.subscribers = append(s.subscribers, sub)
		handler := s.router.AddConsumerHandler(fmt.Sprintf("stock-%d", instance+1), s.queue, sub, s.reserve)
		handler.AddMiddleware(s.loseAcks(), stack.Middleware)
	}
	return nil
}

// reserve knows nothing of duplicates.
func (s *shop) reserve(msg *message.Message) error {
	var o order
	if err := json.Unmarshal(msg.Payload, &o); err != nil {
		return inbox.Permanent(fmt.Errorf("order cannot be read: %w", err)) // a letter, no retry
	}
	tx, err := inbox.Tx(msg.Context())
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(msg.Context(), "INSERT INTO reservations (order_id, item) VALUES ($1, $2)", o.ID, o.Item)
	return err
}

var errCrash = errors.New("crashed between commit and ack")

// loseAcks surrounds everything: every fifth message is put back although it was
// handled.
func (s *shop) loseAcks() message.HandlerMiddleware {
	var seen atomic.Int64
	return func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			produced, err := h(msg)
			if err == nil && seen.Add(1)%5 == 0 {
				s.lostAcks.Add(1)
				return nil, errCrash
			}
			if err == nil {
				s.settled.Add(1)
			}
			return produced, err
		}
	}
}

// furnish makes what the service has anyway.
func (s *shop) furnish(ctx context.Context) error {
	u, err := url.Parse(s.server)
	if err != nil || u.Host == "" {
		return fmt.Errorf("%s cannot be read as postgres://user:password@host:port/database", postgresVariable)
	}
	if err := s.onServer(ctx, "CREATE DATABASE "+s.name); err != nil {
		return fmt.Errorf("create a database on the server of %s: %w", postgresVariable, err)
	}
	u.Path = "/" + s.name
	if s.db, err = sql.Open("postgres", u.String()); err != nil {
		return err
	}
	if err := pginbox.Migrate(ctx, s.db, pginbox.Config{}); err != nil {
		return err
	}
	// No key: a doubled order shall be seen, not refused.
	if _, err := s.db.ExecContext(ctx, "CREATE TABLE reservations (order_id INTEGER NOT NULL, item TEXT NOT NULL)"); err != nil {
		return err
	}
	if s.broker, err = amqp.Dial(s.url); err != nil {
		return fmt.Errorf("connect to the broker of %s: %w", rabbitVariable, err)
	}
	return s.onChannel(func(ch *amqp.Channel) error {
		for _, name := range s.queues() {
			if _, err := ch.QueueDeclare(name, true, false, false, false, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *shop) queues() []string { return []string{s.queue, rabbit.DeadLetterQueue(s.queue)} }

func (s *shop) onServer(ctx context.Context, statement string) error {
	db, err := sql.Open("postgres", s.server)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, statement)
	return err
}

func (s *shop) onChannel(f func(ch *amqp.Channel) error) error {
	ch, err := s.broker.Channel()
	if err != nil {
		return err
	}
	return errors.Join(f(ch), ch.Close())
}

// end stops the service: then what was not acked is in the queue again.
func (s *shop) end() error {
	var errs []error
	if s.router != nil {
		errs = append(errs, s.router.Close())
	}
	for _, sub := range s.subscribers {
		errs = append(errs, sub.Close())
	}
	s.subscribers = nil
	return errors.Join(errs...)
}

// close takes database and queues away, as far as they were made.
func (s *shop) close() {
	_ = s.end()
	if s.letters != nil {
		_ = s.letters.Close()
	}
	if s.conn != nil {
		_ = s.conn.Close()
	}
	if s.broker != nil {
		_ = s.onChannel(func(ch *amqp.Channel) error {
			for _, name := range s.queues() {
				if _, err := ch.QueueDelete(name, false, false, false); err != nil {
					return err
				}
			}
			return nil
		})
		_ = s.broker.Close()
	}
	if s.db != nil {
		_ = s.db.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = s.onServer(ctx, "DROP DATABASE IF EXISTS "+s.name+" WITH (FORCE)")
}
