package mysqlinbox_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/mysqlinbox"
)

// A message that comes twice takes effect once: the second Do gives Duplicate and
// does not call the handler.
func Example() {
	ctx := context.Background()
	config := mysqlinbox.Config{}
	dsn, err := mysqlinbox.DSN("shop:secret@tcp(127.0.0.1:3306)/shop", config)
	if err != nil {
		panic(err)
	}
	db, err := sql.Open("mysql", dsn) // a pool of the inbox's own
	if err != nil {
		panic(err)
	}
	defer func() { _ = db.Close() }()
	if err := mysqlinbox.Migrate(ctx, db, config); err != nil {
		panic(err)
	}
	box, err := mysqlinbox.Open(ctx, db, config)
	if err != nil {
		panic(err)
	}
	if err := box.Register(ctx, inbox.Consumer{Name: "stock", Queue: "orders.stock"}); err != nil {
		panic(err)
	}
	for range 2 {
		fmt.Println(box.Do(ctx, inbox.Claim{Consumer: "stock", Key: "order-1"}, takeOne("tea")))
	}
}

// takeOne is the handler: all its writes go through the claim's transaction.
func takeOne(item string) func(context.Context) error {
	return func(ctx context.Context) error {
		tx, err := inbox.Tx(ctx)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE stock SET n = n - 1 WHERE item = ?", item)
		return err
	}
}

// The data source name for a pool of the inbox's own.
func ExampleDSN() {
	dsn, err := mysqlinbox.DSN("shop:secret@tcp(db:3306)/shop?parseTime=true", mysqlinbox.Config{})
	fmt.Println(dsn, err)
}
