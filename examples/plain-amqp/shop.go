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

	_ "github.com/lib/pq"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/router/rabbit"
)

const (
	postgresVariable = "SEKALI_POSTGRES_URL"
	rabbitVariable   = "SEKALI_RABBITMQ_URL"
)

// shop is what one run has to itself: a database and two queues.
type shop struct {
	server, name string // of the database
	db           *sql.DB
	broker       *amqp.Connection // of the loop, as it always was
	queue        string

	box     *inbox.Inbox
	conn    *rabbit.Connection
	letters *rabbit.Publisher
}

func openShop(ctx context.Context) (*shop, error) {
	server, broker := os.Getenv(postgresVariable), os.Getenv(rabbitVariable)
	for _, v := range [][2]string{{postgresVariable, server}, {rabbitVariable, broker}} {
		if v[1] == "" {
			return nil, fmt.Errorf(`%s is not set: run scripts/services up && eval "$(scripts/services env)", or set it to the URL of a server of your own`, v[0])
		}
	}
	var token [4]byte
	_, _ = rand.Read(token[:]) // never fails
	s := &shop{server: server, name: "sekali_plain_amqp_" + hex.EncodeToString(token[:])}
	s.queue = s.name
	if err := s.open(ctx, broker); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// open makes what the service has anyway, then what Handle needs.
func (s *shop) open(ctx context.Context, broker string) error {
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
	// No key: a payment that is booked twice shall be seen, not refused.
	if _, err := s.db.ExecContext(ctx, "CREATE TABLE bookings (payment INTEGER NOT NULL, cents INTEGER NOT NULL)"); err != nil {
		return err
	}
	if s.broker, err = amqp.Dial(broker); err != nil {
		return fmt.Errorf("connect to the broker of %s: %w", rabbitVariable, err)
	}
	err = s.onChannel(func(ch *amqp.Channel) error {
		if _, err := ch.QueueDeclare(rabbit.DeadLetterQueue(s.queue), true, false, false, false, nil); err != nil {
			return err
		}
		_, err := ch.QueueDeclare(s.queue, true, false, false, false, amqp.Table{
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": rabbit.DeadLetterQueue(s.queue),
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("declare the queues: %w", err)
	}

	// Once in the service: tables (or in your migration tool), inbox, letters.
	if err := pginbox.Migrate(ctx, s.db, pginbox.Config{}); err != nil {
		return err
	}
	if s.box, err = pginbox.Open(ctx, s.db, pginbox.Config{}); err != nil {
		return err
	}
	if s.conn, err = rabbit.NewConnection(broker, rabbit.ConnectionConfig{Name: "payments"}); err != nil {
		return err
	}
	s.letters, err = rabbit.NewPublisher(s.conn, rabbit.PublisherConfig{})
	return err
}

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

// close takes database and queues away, as far as they were made.
func (s *shop) close() {
	if s.letters != nil {
		_ = s.letters.Close()
	}
	if s.conn != nil {
		_ = s.conn.Close()
	}
	if s.broker != nil {
		_ = s.onChannel(func(ch *amqp.Channel) error {
			for _, name := range []string{s.queue, rabbit.DeadLetterQueue(s.queue)} {
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
