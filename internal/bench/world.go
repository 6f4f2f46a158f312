package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/middleware/inbox/pgxinbox"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// world is the database and the queue of one run of this program.
type world struct {
	server   string // PostgreSQL
	broker   string
	name     string // of the database and of the queue
	database string // URL
	pool     *pgxpool.Pool
	conn     *amqp.Connection
	servers  []process
}

func newWorld(ctx context.Context, server, broker string) (w *world, err error) {
	if server == "" || broker == "" {
		return nil, errors.New("SEKALI_POSTGRES_URL or SEKALI_RABBITMQ_URL is not set: make bench, or scripts/services run -- go run ./internal/bench")
	}
	var token [4]byte
	_, _ = rand.Read(token[:]) // never fails
	w = &world{server: server, broker: broker, name: "sekali_bench_" + hex.EncodeToString(token[:])}
	if err := w.exec(ctx, "CREATE DATABASE "+w.name); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	u, err := url.Parse(server)
	if err != nil {
		return nil, errors.New("SEKALI_POSTGRES_URL is no URL")
	}
	u.Path = "/" + w.name
	w.database = u.String()
	if w.pool, err = pgxpool.New(ctx, w.database); err != nil {
		return nil, errors.New("SEKALI_POSTGRES_URL is no URL of a PostgreSQL")
	}
	if err := w.durable(ctx); err != nil {
		return nil, err
	}
	if _, err := w.pool.Exec(ctx, tables); err != nil {
		return nil, fmt.Errorf("create the tables: %w", err)
	}
	if err := pgxinbox.Migrate(ctx, w.pool, pgxinbox.Config{}); err != nil {
		return nil, err
	}
	if w.conn, err = amqp.Dial(broker); err != nil {
		return nil, fmt.Errorf("connect to the broker of SEKALI_RABBITMQ_URL: %w", err)
	}
	w.servers = []process{serverOf(server, "postgres"), serverOf(broker, "beam.smp")}
	return w, nil
}

// Autovacuum would strike one system and spare the next.
const tables = `
	CREATE TABLE stock (id BIGINT PRIMARY KEY, n BIGINT NOT NULL) WITH (autovacuum_enabled = false);
	CREATE TABLE ` + byHandTable + ` (event_id TEXT PRIMARY KEY, at TIMESTAMPTZ NOT NULL DEFAULT now()) WITH (autovacuum_enabled = false);
`

// durable refuses a server on which a commit costs nothing because it is none.
func (w *world) durable(ctx context.Context) error {
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		var value string
		if err := w.pool.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value); err != nil {
			return err
		}
		if value != "on" {
			return fmt.Errorf("%s is %q on this PostgreSQL: figures without durable commits mean nothing, set it to on", name, value)
		}
	}
	return nil
}

// close drops what was made, whatever became of the rest.
func (w *world) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	if w.conn != nil {
		errs = append(errs, w.onChannel(w.dropQueues), w.conn.Close())
	}
	if w.pool != nil {
		w.pool.Close()
	}
	return errors.Join(append(errs, w.exec(ctx, "DROP DATABASE IF EXISTS "+w.name+" WITH (FORCE)"))...)
}

func (w *world) exec(ctx context.Context, statement string) (err error) {
	conn, err := pgx.Connect(ctx, w.server)
	if err != nil {
		return fmt.Errorf("connect to the server of SEKALI_POSTGRES_URL: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, err = conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// fresh gives the next measurement empty tables, and has the server finish what the one before left to it.
func (w *world) fresh(ctx context.Context, rows int) error {
	statements := []string{
		"TRUNCATE stock, " + byHandTable + ", " + sekaliTable,
		fmt.Sprintf("INSERT INTO stock SELECT id, 0 FROM generate_series(1, %d) id", rows),
		"VACUUM ANALYZE stock",
		"CHECKPOINT",
	}
	for _, s := range statements {
		if _, err := w.pool.Exec(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

func (w *world) count(ctx context.Context, query string) (n int64, err error) {
	if err = w.pool.QueryRow(ctx, query).Scan(&n); err != nil {
		err = fmt.Errorf("%s: %w", query, err)
	}
	return n, err
}

func (w *world) letterQueue() string { return rabbit.DeadLetterQueue(w.name) }

func (w *world) onChannel(f func(ch *amqp.Channel) error) (err error) {
	ch, err := w.conn.Channel()
	if err != nil {
		return err
	}
	if err := f(ch); err != nil {
		return err
	}
	return ch.Close()
}

func (w *world) dropQueues(ch *amqp.Channel) error {
	for _, q := range []string{w.name, w.letterQueue()} {
		if _, err := ch.QueueDelete(q, false, false, false); err != nil {
			return fmt.Errorf("delete queue %q: %w", q, err)
		}
	}
	return nil
}

// freshQueues declares the queue, the same one for all systems, and the place of Sekali's letters.
func (w *world) freshQueues(kind string) error {
	return w.onChannel(func(ch *amqp.Channel) error {
		if err := w.dropQueues(ch); err != nil {
			return err
		}
		for queue, kind := range map[string]string{w.name: kind, w.letterQueue(): amqp.QueueTypeClassic} {
			if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{amqp.QueueTypeArg: kind}); err != nil {
				return fmt.Errorf("declare queue %q: %w", queue, err)
			}
		}
		return nil
	})
}

// depth is how many messages a queue holds that no consumer has.
func (w *world) depth(queue string) (n int64, err error) {
	err = w.onChannel(func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		n = int64(q.Messages)
		return err
	})
	return n, err
}
