package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/sqliteinbox"
)

// queue that a consumer has to itself: every order goes into each of them.
func queue(consumer string) string { return "orders." + consumer }

// deadLetters is where letters of a queue wait: the default of middleware.Stack.
func deadLetters(queue string) string { return queue + ".dlq" }

// shop is the database, the broker and the consumers.
type shop struct {
	orders  int
	db      *sql.DB
	broker  *gochannel.GoChannel
	router  *message.Router
	letters *dlq.Letters
	mended  atomic.Bool // the payment service knows all currencies

	published  atomic.Int64
	deliveries atomic.Int64
	outcomes   [inbox.Unclaimed + 1]atomic.Int64
	redriven   redriven
}

// order is what the producer sends.
type order struct {
	ID       int    `json:"id"`
	Cents    int    `json:"cents"`
	Currency string `json:"currency"`
}

// A consumer is a name under which keys are remembered, and what it does. The
// handlers know nothing of duplicates: they write through the transaction that
// holds the claim, and return errors.
var consumers = []struct {
	name      string
	instances int
	handle    func(ctx context.Context, s *shop, tx inbox.DBTX, o order) error
}{
	{"payment", 1, func(ctx context.Context, s *shop, tx inbox.DBTX, o order) error {
		if o.Currency != "EUR" && !s.mended.Load() {
			return inbox.Permanent(fmt.Errorf("currency %q is not known", o.Currency)) // a letter, no retry
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO payments (order_id, cents) VALUES (?, ?)", o.ID, o.Cents)
		return err
	}},
	{"stock", 2, func(ctx context.Context, _ *shop, tx inbox.DBTX, _ order) error {
		_, err := tx.ExecContext(ctx, "UPDATE stock SET reserved = reserved + 1 WHERE item = 'lamp'")
		return err
	}},
	{unacked, 1, func(ctx context.Context, _ *shop, tx inbox.DBTX, o order) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO confirmations (order_id) VALUES (?)", o.ID)
		return err
	}},
}

func openShop(ctx context.Context, path string, orders int) (*shop, error) {
	db, err := sql.Open("sqlite", sqliteinbox.DSN(path))
	if err != nil {
		return nil, err
	}
	s := &shop{orders: orders, db: db}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func (s *shop) open(ctx context.Context) error {
	if err := errors.Join(sqliteinbox.Migrate(ctx, s.db, sqliteinbox.Config{}), dlq.Migrate(ctx, s.db)); err != nil {
		return err
	}
	if _, err := s.db.ExecContext(ctx, `
		CREATE TABLE payments (order_id INTEGER NOT NULL, cents INTEGER NOT NULL);
		CREATE TABLE confirmations (order_id INTEGER NOT NULL);
		CREATE TABLE stock (item TEXT PRIMARY KEY, reserved INTEGER NOT NULL);
		INSERT INTO stock VALUES ('lamp', 0)`); err != nil {
		return err
	}
	box, err := sqliteinbox.Open(ctx, s.db, sqliteinbox.Config{Config: inbox.Config{
		Service: "shop",
		Hooks:   inbox.Hooks{Done: func(_ context.Context, e inbox.Event) { s.outcomes[e.Outcome].Add(1) }},
	}})
	if err != nil {
		return err
	}
	// Publish returns when every subscriber has acked: then the day is over.
	s.broker = gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	if s.router, err = message.NewRouter(message.RouterConfig{}, watermill.NopLogger{}); err != nil {
		return err
	}
	if s.letters, err = dlq.Open(ctx, s.db, dlq.Config{Inboxes: map[string]*inbox.Inbox{"shop": box}}); err != nil {
		return err
	}
	for _, c := range consumers {
		stack, err := middleware.NewStack(box, middleware.Trust(s.broker), middleware.StackConfig{
			Config: middleware.Config{Consumer: c.name, Queue: queue(c.name)},
		})
		if err != nil {
			return err
		}
		s.router.AddPlugin(stack.Plugin)
		for i := range c.instances {
			h := s.router.AddConsumerHandler(fmt.Sprintf("%s-%d", c.name, i+1), queue(c.name), s.broker, func(msg *message.Message) error {
				var o order
				if err := json.Unmarshal(msg.Payload, &o); err != nil {
					return inbox.Permanent(fmt.Errorf("order cannot be read: %w", err))
				}
				tx, err := inbox.Tx(msg.Context())
				if err != nil {
					return err
				}
				return c.handle(msg.Context(), s, tx, o)
			})
			h.AddMiddleware(s.crash(c.name), stack.Middleware)
		}
		s.router.AddConsumerHandler(c.name+"-letters", deadLetters(queue(c.name)), s.broker, s.letters.Collector(dlq.CollectorConfig{}))
	}
	return nil
}

var errCrash = errors.New("crashed between commit and ack")

const (
	// unacked is the consumer that crashes whenever it has unackedOrder.
	unacked      = "confirmation"
	unackedOrder = "order-1"
	// deliveryLimit is how often the broker hands out a message that is not acked.
	deliveryLimit = 3
)

// crash surrounds everything: it counts deliveries, and for every fifth message
// it lets the first ack get lost, as a crash right after the commit does. Of
// unackedOrder every ack gets lost, and the broker gives it up, as RabbitMQ does
// at the delivery limit: a letter of a message that was processed.
func (s *shop) crash(consumer string) message.HandlerMiddleware {
	var seen, given atomic.Int64
	var crashed sync.Map
	return func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			s.deliveries.Add(1)
			produced, err := h(msg)
			switch {
			case err != nil:
			case consumer == unacked && msg.Metadata["event_id"] == unackedOrder:
				if given.Add(1) < deliveryLimit {
					return nil, errCrash
				}
				return nil, s.broker.Publish(deadLetters(queue(consumer)), msg.Copy())
			case seen.Add(1)%5 == 0:
				if _, twice := crashed.LoadOrStore(msg.UUID, true); !twice {
					return nil, errCrash
				}
			}
			return produced, err
		}
	}
}

func (s *shop) close() {
	if s.router != nil {
		_ = s.router.Close()
	}
	_ = s.broker.Close()
	_ = s.db.Close()
}
