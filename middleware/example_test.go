package middleware_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/sqliteinbox"
)

// The whole stack on an in-process broker, with a handler for each way to fail.
func ExampleStack() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "example-")
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", sqliteinbox.DSN(filepath.Join(dir, "example.db")))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	if err := sqliteinbox.Migrate(ctx, db, sqliteinbox.Config{}); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE effects (name TEXT)"); err != nil {
		fmt.Println(err)
		return
	}
	box, err := sqliteinbox.Open(ctx, db, sqliteinbox.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}

	broker := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		fmt.Println(err)
		return
	}
	handlers := []struct {
		name   string
		ending func() error
	}{
		{"good", func() error { return nil }},
		{"failing", func() error { return errors.New("no such lamp") }},
		{"permanent", func() error { return inbox.Permanent(errors.New("not an order")) }},
		{"panicking", func() error { panic("no such lamp") }},
		{"exiting", func() error { runtime.Goexit(); return nil }},
	}
	attempts := map[string]int{}
	for _, h := range handlers {
		stack, err := middleware.NewStack(box, middleware.Trust(broker), middleware.StackConfig{
			Config:      middleware.Config{Consumer: h.name, Queue: h.name},
			MaxAttempts: 3,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		router.AddPlugin(stack.Plugin)
		router.AddConsumerHandler(h.name, h.name, broker, func(msg *message.Message) error {
			attempts[h.name]++
			tx, err := inbox.Tx(msg.Context())
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(msg.Context(), "INSERT INTO effects VALUES (?)", h.name); err != nil {
				return err
			}
			return h.ending()
		}).AddMiddleware(stack.Middleware)
	}
	letters := map[string]string{}
	for _, h := range handlers {
		dead, err := broker.Subscribe(ctx, h.name+".dlq")
		if err != nil {
			fmt.Println(err)
			return
		}
		go func() {
			for msg := range dead {
				letters[h.name] = msg.Metadata["sekali-reason"]
				msg.Ack()
			}
		}()
	}
	go func() { _ = router.Run(ctx) }()
	<-router.Running()

	for _, h := range handlers {
		msg := message.NewMessage(watermill.NewUUID(), []byte("{}"))
		msg.Metadata.Set("event_id", "order-7")
		if err := broker.Publish(h.name, msg); err != nil { // returns when it is settled
			fmt.Println(err)
			return
		}
		var effects int
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM effects WHERE name = ?", h.name).Scan(&effects); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: attempts %d, effects %d\n", h.name, attempts[h.name], effects)
		if reason, ok := letters[h.name]; ok {
			fmt.Printf("  letter: %s\n", reason)
		}
	}
	_ = router.Close()
	_ = broker.Close()
	// Output:
	// good: attempts 1, effects 1
	// failing: attempts 3, effects 0
	//   letter: gave up after 3 attempts: handle failing/"order-7": no such lamp
	// permanent: attempts 1, effects 0
	//   letter: handle permanent/"order-7": not an order
	// panicking: attempts 3, effects 0
	//   letter: gave up after 3 attempts: handler panicked: no such lamp
	// exiting: attempts 1, effects 0
	//   letter: gave up after 1 attempts in 0s, and there is no delayed retry: handler left its goroutine (runtime.Goexit): it must return
}
