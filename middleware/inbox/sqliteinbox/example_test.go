package sqliteinbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/sqliteinbox"
)

// An order is delivered three times; the stock is reduced once. The third
// delivery has the same key and another body: an operator has to look.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "sekali")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sql.Open("sqlite", sqliteinbox.DSN(filepath.Join(dir, "shop.db")))
	if err != nil {
		panic(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(ctx, "CREATE TABLE stock (item TEXT PRIMARY KEY, n INTEGER NOT NULL); INSERT INTO stock VALUES ('tea', 10)"); err != nil {
		panic(err)
	}

	if err := sqliteinbox.Migrate(ctx, db, sqliteinbox.Config{}); err != nil {
		panic(err)
	}
	box, err := sqliteinbox.Open(ctx, db, sqliteinbox.Config{})
	if err != nil {
		panic(err)
	}
	if err := box.Register(ctx, inbox.Consumer{Name: "stock", Queue: "orders.stock"}); err != nil {
		panic(err)
	}

	for _, body := range []string{"tea", "tea", "coffee"} {
		claim := inbox.Claim{Consumer: "stock", Key: "order-1", Fingerprint: inbox.Fingerprint([]byte(body))}
		out, err := box.Do(ctx, claim, func(ctx context.Context) error {
			tx, err := inbox.Tx(ctx)
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, "UPDATE stock SET n = n - 1 WHERE item = ?", body)
			return err
		})
		fmt.Println(body, out, err != nil)
	}

	var n int
	if err := db.QueryRowContext(ctx, "SELECT n FROM stock WHERE item = 'tea'").Scan(&n); err != nil {
		panic(err)
	}
	fmt.Println("left:", n)
	// Output:
	// tea processed false
	// tea duplicate false
	// coffee conflict true
	// left: 9
}
