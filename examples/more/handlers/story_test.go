package handlers

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

const (
	orders     = 20
	sendings   = 2 // of each order, at once
	instances  = 4 // of the handler; each gets every message
	startStock = 1000
	topic      = "orders"
	letters    = "orders.dlq"
)

// What becomes of an order's runs, after all writes were made.
func fails(id int64) bool  { return id%5 == 1 }  // the first run
func panics(id int64) bool { return id%5 == 3 }  // the first run
func dies(id int64) bool   { return id%10 == 4 } // every run

// telling is one run of the story.
type telling struct {
	db       *sql.DB
	started  sync.Map // ids of orders that had their first run
	outcomes [inbox.Unclaimed + 1]atomic.Int64
	letters  int
}

func (s *telling) config() inbox.Config {
	return inbox.Config{Service: "shop", Hooks: inbox.Hooks{
		Done: func(_ context.Context, e inbox.Event) { s.outcomes[e.Outcome].Add(1) },
	}}
}

// story sends every order several times to several instances at once, and returns
// when all is settled.
func (s *telling) story(t *testing.T, svc service) {
	t.Helper()
	if _, err := s.db.ExecContext(t.Context(), "INSERT INTO stock VALUES ('lamp', $1)", startStock); err != nil {
		t.Fatal(err)
	}
	// Publish returns when every subscriber has acked.
	broker := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	dead, err := broker.Subscribe(t.Context(), letters)
	if err != nil {
		t.Fatal(err)
	}
	var collecting sync.WaitGroup
	collecting.Go(func() {
		for msg := range dead {
			s.letters++
			msg.Ack()
		}
	})
	router := s.router(t, svc, broker)
	ended := make(chan error, 1)
	go func() { ended <- router.Run(t.Context()) }()
	<-router.Running()

	var sending sync.WaitGroup
	for id := range int64(orders) {
		payload, err := json.Marshal(Order{ID: id, Item: "lamp"})
		if err != nil {
			t.Fatal(err)
		}
		for range sendings {
			sending.Go(func() {
				msg := message.NewMessage(watermill.NewUUID(), payload)
				msg.Metadata.Set("event_id", fmt.Sprintf("order-%d", id))
				if err := broker.Publish(topic, msg); err != nil {
					t.Error(err)
				}
			})
		}
	}
	sending.Wait()
	if err := errors.Join(router.Close(), <-ended, broker.Close()); err != nil {
		t.Fatal(err)
	}
	collecting.Wait()
}

func (s *telling) router(t *testing.T, svc service, broker *gochannel.GoChannel) *message.Router {
	t.Helper()
	stack, err := middleware.NewStack(svc.box, middleware.Trust(broker), middleware.StackConfig{
		Config:          middleware.Config{Consumer: "shop.sales", Queue: "shop.sales"},
		DeadLetterTopic: func(string) string { return letters },
	})
	if err != nil {
		t.Fatal(err)
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	router.AddPlugin(stack.Plugin)
	for i := range instances {
		h := router.AddConsumerHandler(fmt.Sprintf("sales-%d", i), topic, broker, func(msg *message.Message) error {
			var o Order
			if err := json.Unmarshal(msg.Payload, &o); err != nil {
				return inbox.Permanent(err)
			}
			if err := svc.handle(msg.Context(), o); err != nil {
				return err
			}
			return s.misfortune(o.ID)
		})
		h.AddMiddleware(svc.outside...)
		h.AddMiddleware(stack.Middleware)
	}
	return router
}

// misfortune comes after the writes.
func (s *telling) misfortune(id int64) error {
	_, again := s.started.LoadOrStore(id, true)
	switch {
	case dies(id):
		return inbox.Permanent(errors.New("refused for good"))
	case again:
	case fails(id):
		return errors.New("failed once")
	case panics(id):
		panic("panicked once")
	}
	return nil
}

// books checks that each order but the refused ones took effect once, and that
// every run that did not commit left nothing.
func (s *telling) books(t *testing.T, gifts bool) {
	t.Helper()
	effects, given, refused := 0, 0, 0
	for id := range int64(orders) {
		want, gift := 1, 0
		if dies(id) {
			want = 0
			refused++
		} else if gifts && (Order{ID: id}).gift() {
			gift = 1
		}
		effects, given = effects+want, given+gift
		var sales, got int
		err := s.db.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM sales WHERE order_id = $1), (SELECT count(*) FROM gifts WHERE order_id = $1)`, id).Scan(&sales, &got)
		if err != nil || sales != want || got != gift {
			t.Errorf("order %d: %d sales of %d, %d gifts of %d, %v", id, sales, want, got, gift, err)
		}
	}
	var stock, claims int
	err := s.db.QueryRowContext(t.Context(), `SELECT (SELECT n FROM stock), (SELECT count(*) FROM processed_messages)`).Scan(&stock, &claims)
	if err != nil || startStock-stock != effects || claims != effects {
		t.Errorf("%d of %d taken from the stock, %d claims, %v", startStock-stock, effects, claims, err)
	}
	copies := sendings * instances
	processed, duplicates := s.outcomes[inbox.Processed].Load(), s.outcomes[inbox.Duplicate].Load()
	if processed != int64(effects) || duplicates != int64(effects*(copies-1)) || s.letters != refused*copies {
		t.Errorf("processed %d, duplicates %d, letters %d", processed, duplicates, s.letters)
	}
	t.Logf("%d orders, %d deliveries: %d effects, %d duplicates, %d letters, %d gifts", orders, orders*copies, effects, duplicates, s.letters, given)
}
