package handlers

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/sekali-mq/sekali/middleware/inbox/pgxinbox"
)

// PGX is a handler on pgx itself. What takes a pgx.Tx, sqlc's code for pgx too,
// takes this one.
func PGX(ctx context.Context, o Order) error {
	tx, err := pgxinbox.Tx(ctx)
	if err != nil {
		return err
	}
	// Two statements, one round trip.
	var writes pgx.Batch
	writes.Queue("UPDATE stock SET n = n - 1 WHERE item = $1", o.Item)
	writes.Queue("INSERT INTO sales (order_id, item) VALUES ($1, $2)", o.ID, o.Item)
	if err := tx.SendBatch(ctx, &writes).Close(); err != nil {
		return err
	}

	// Begin makes a savepoint, whose part of the work can be undone without the
	// rest.
	gift, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := gift.Exec(ctx, "INSERT INTO gifts (order_id) VALUES ($1)", o.ID); err != nil {
		return err
	}
	if !o.gift() {
		return gift.Rollback(ctx)
	}
	return gift.Commit(ctx)
}
