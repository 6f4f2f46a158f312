package pginbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
)

// BenchmarkDo is one message with one UPDATE, beside the same UPDATE in a
// transaction without a claim.
func BenchmarkDo(b *testing.B) {
	const update = `UPDATE accounts SET n = n + 1 WHERE id = 1`
	for _, driver := range drivers {
		url := testservices.NewPostgresDatabase(b)
		db, err := sql.Open(driver, url)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = db.Close() })
		if _, err := db.Exec(`CREATE TABLE accounts (id INT PRIMARY KEY, n INT); INSERT INTO accounts VALUES (1, 0)`); err != nil {
			b.Fatal(err)
		}
		if err := pginbox.Migrate(b.Context(), db, pginbox.Config{}); err != nil {
			b.Fatal(err)
		}
		box, err := pginbox.Open(b.Context(), db, pginbox.Config{})
		if err != nil {
			b.Fatal(err)
		}
		if err := box.Register(b.Context(), inbox.Consumer{Name: "c"}); err != nil {
			b.Fatal(err)
		}
		b.Run(driver+"/without", func(b *testing.B) {
			for b.Loop() {
				tx, err := db.BeginTx(b.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := tx.ExecContext(b.Context(), update); err != nil {
					b.Fatal(err)
				}
				if err := tx.Commit(); err != nil {
					b.Fatal(err)
				}
			}
		})
		var n atomic.Int64
		do := func(b *testing.B, key string, want inbox.Outcome) {
			b.Helper()
			out, err := box.Do(b.Context(), inbox.Claim{Consumer: "c", Key: key}, func(ctx context.Context) error {
				tx, err := inbox.Tx(ctx)
				if err != nil {
					return err
				}
				_, err = tx.ExecContext(ctx, update)
				return err
			})
			if out != want {
				b.Fatalf("%s, %v", out, err)
			}
		}
		b.Run(driver+"/claimed", func(b *testing.B) {
			for b.Loop() {
				do(b, fmt.Sprint(n.Add(1)), inbox.Processed)
			}
		})
		b.Run(driver+"/duplicate", func(b *testing.B) {
			for b.Loop() {
				do(b, "1", inbox.Duplicate)
			}
		})
	}
}
