package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pgxinbox"
)

const (
	consumer = "orders"
	// keep is younger than the old claims by some days.
	keep = 30 * 24 * time.Hour
)

// database is one of the program's own.
type database struct {
	server, name string
	pool         *pgxpool.Pool
	box          *inbox.Inbox
}

func makeDatabase(ctx context.Context, server string, s *settings) (d *database, err error) {
	d = &database{server: server, name: fmt.Sprintf("purgebench_%d", os.Getpid())}
	if err := d.exec(ctx, "CREATE DATABASE "+d.name); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.drop())
		}
	}()
	u, err := url.Parse(server)
	if err != nil {
		return nil, errors.New("SEKALI_POSTGRES_URL is no URL")
	}
	u.Path = "/" + d.name
	c, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, errors.New("SEKALI_POSTGRES_URL is no URL of a PostgreSQL")
	}
	c.MaxConns = int32(s.workers) + 2 //nolint:gosec // a few
	if d.pool, err = pgxpool.NewWithConfig(ctx, c); err != nil {
		return nil, err
	}
	if err := pgxinbox.Migrate(ctx, d.pool, pgxinbox.Config{}); err != nil {
		return nil, err
	}
	if err := d.fill(ctx, s); err != nil {
		return nil, err
	}
	if d.box, err = pgxinbox.Open(ctx, d.pool, pgxinbox.Config{Config: inbox.Config{Service: "purgebench"}}); err != nil {
		return nil, err
	}
	if err := d.box.Register(ctx, inbox.Consumer{Name: consumer}); err != nil {
		return nil, err
	}
	return d, nil
}

// fill makes claims in the order of their time, with keys at random. The key is
// made afterwards, which is faster.
func (d *database) fill(ctx context.Context, s *settings) error {
	statements := []string{
		"ALTER TABLE processed_messages DROP CONSTRAINT processed_messages_pkey",
		fmt.Sprintf(`INSERT INTO processed_messages SELECT '%s', md5(n::text), CASE WHEN n <= %d THEN now() - interval '40 days' ELSE now() - interval '20 days' END
			+ n * interval '100 milliseconds', decode('01' || md5('x' || n), 'hex') FROM generate_series(1, %d) n`, consumer, s.old, s.rows),
		"ALTER TABLE processed_messages ADD PRIMARY KEY (consumer_name, message_key)",
		"VACUUM ANALYZE processed_messages",
		"CHECKPOINT",
	}
	if s.index != "" {
		statements = append(statements, "CREATE INDEX ON processed_messages USING "+s.index+" (processed_at)")
	}
	for _, statement := range statements {
		if _, err := d.pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", strings.Fields(statement)[0], err)
		}
	}
	return nil
}

// drop the database, whatever became of the rest.
func (d *database) drop() error {
	if d.pool != nil {
		d.pool.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return d.exec(ctx, "DROP DATABASE IF EXISTS "+d.name+" WITH (FORCE)")
}

func (d *database) exec(ctx context.Context, statement string) (err error) {
	conn, err := pgx.Connect(ctx, d.server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, statement)
	return err
}
