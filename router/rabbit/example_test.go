package rabbit_test

import (
	"context"
	"log"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// A Watermill router on RabbitMQ. The queue "orders" must exist.
func Example() {
	logger := watermill.NewStdLogger(false, false)
	conn, err := rabbit.NewConnection("amqp://guest:guest@localhost/", rabbit.ConnectionConfig{Name: "stock", Logger: logger})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	sub, err := rabbit.NewSubscriber(conn, rabbit.SubscriberConfig{Concurrency: 32, Logger: logger})
	if err != nil {
		log.Fatal(err)
	}
	router, err := message.NewRouter(message.RouterConfig{}, logger)
	if err != nil {
		log.Fatal(err)
	}
	router.AddConsumerHandler("stock", "orders", sub, func(*message.Message) error {
		return nil // acked; an error would put the message back
	})
	if err := router.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// An existing consume loop becomes idempotent: the delivery goes to handle, which
// settles it.
func ExampleHandle() {
	var (
		ctx  = context.Background()
		box  *inbox.Inbox // of pginbox.Open, for instance
		ch   *amqp.Channel
		conn *rabbit.Connection
	)
	letters, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	if err != nil {
		log.Fatal(err)
	}
	handle, err := rabbit.Handle(ctx, box, rabbit.HandleConfig{Queue: "orders", Letters: letters},
		func(ctx context.Context, d amqp.Delivery) error {
			tx, err := inbox.Tx(ctx)
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, "INSERT INTO payments (event) VALUES ($1)", string(d.Body))
			return err
		})
	if err != nil {
		log.Fatal(err)
	}
	deliveries, err := ch.Consume("orders", "", false, false, false, false, nil)
	if err != nil {
		log.Fatal(err)
	}
	for d := range deliveries {
		handle(d)
	}
}
