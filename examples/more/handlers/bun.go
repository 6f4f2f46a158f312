package handlers

import (
	"context"
	"database/sql"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Bun is a service on bun.
type Bun struct{ db *bun.DB }

// NewBun takes the pool that the inbox works on.
func NewBun(db *sql.DB) Bun { return Bun{bun.NewDB(db, pgdialect.New())} }

type bunStock struct {
	bun.BaseModel `bun:"table:stock"`

	Item string `bun:",pk"`
	N    int64
}

type bunSale struct {
	bun.BaseModel `bun:"table:sales"`

	OrderID int64
	Item    string
}

// Handle is a handler: each query is told its connection. One without Conn would
// go to the pool, outside of the claim.
func (b Bun) Handle(ctx context.Context, o Order) error {
	tx, err := inbox.Tx(ctx)
	if err != nil {
		return err
	}
	_, err = b.db.NewUpdate().Conn(tx).Model((*bunStock)(nil)).Set("n = n - 1").Where("item = ?", o.Item).Exec(ctx)
	if err != nil {
		return err
	}
	_, err = b.db.NewInsert().Conn(tx).Model(&bunSale{OrderID: o.ID, Item: o.Item}).Exec(ctx)
	return err
}
