package handlers

import (
	"context"

	"github.com/sekali-mq/sekali/examples/more/handlers/shopdb"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// SQLC is a handler with the code that sqlc generates for database/sql, here from
// queries.sql and schema.sql into shopdb.
func SQLC(ctx context.Context, o Order) error {
	tx, err := inbox.Tx(ctx)
	if err != nil {
		return err
	}
	q := shopdb.New(tx) // and no pool in reach that could be written to by mistake
	if err := q.TakeFromStock(ctx, o.Item); err != nil {
		return err
	}
	return q.AddSale(ctx, shopdb.AddSaleParams{OrderID: o.ID, Item: o.Item})
}
