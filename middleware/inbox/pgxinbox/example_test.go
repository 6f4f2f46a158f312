package pgxinbox_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pgxinbox"
)

// A message that comes twice takes effect once.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := pgxinbox.Migrate(ctx, pool, pgxinbox.Config{}); err != nil {
		log.Fatal(err)
	}
	box, err := pgxinbox.Open(ctx, pool, pgxinbox.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := box.Register(ctx, inbox.Consumer{Name: "stock", Queue: "orders.stock"}); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		out, err := box.Do(ctx, inbox.Claim{Consumer: "stock", Key: "order-7"}, func(ctx context.Context) error {
			tx, err := pgxinbox.Tx(ctx)
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, "UPDATE stock SET n = n - 1 WHERE item = $1", "tea")
			return err
		})
		fmt.Println(out, err) // processed <nil>, then duplicate <nil>
	}
}
