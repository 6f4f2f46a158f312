package handlers

import (
	"context"
	"database/sql"
	"errors"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// GORM is a service on GORM.
type GORM struct{ db *gorm.DB }

// NewGORM takes the pool that the inbox works on.
func NewGORM(db *sql.DB) (GORM, error) {
	g, err := gorm.Open(postgres.New(postgres.Config{Conn: db}), &gorm.Config{})
	return GORM{g}, err
}

// gormTx is GORM on the claim's transaction.
func gormTx(ctx context.Context, db *gorm.DB) (*gorm.DB, error) {
	tx, err := inbox.Tx(ctx)
	if err != nil {
		return nil, err
	}
	// With a Context the session has a Statement of its own; without one, the next
	// line would move the whole service into this transaction.
	session := db.Session(&gorm.Session{NewDB: true, Context: ctx})
	session.Statement.ConnPool = gormPool{tx}
	return session, nil
}

// gormPool has the methods by which GORM knows a transaction, so that
// Transaction makes a savepoint in it. GORM does not call them then, and nobody
// else shall: the inbox commits after the handler returned.
type gormPool struct{ inbox.DBTX }

var errNotOurs = errors.New("the inbox ends the claim's transaction")

func (gormPool) Commit() error   { return errNotOurs }
func (gormPool) Rollback() error { return errNotOurs }

type gormStock struct {
	Item string `gorm:"primaryKey"`
	N    int64
}

type gormSale struct {
	OrderID int64
	Item    string
}

type gormGift struct{ OrderID int64 }

// TableName is GORM's way to name the table of a model.
func (gormStock) TableName() string { return "stock" }

// TableName is GORM's way to name the table of a model.
func (gormSale) TableName() string { return "sales" }

// TableName is GORM's way to name the table of a model.
func (gormGift) TableName() string { return "gifts" }

var errNoGift = errors.New("no gift this time")

// Handle is a handler. The nested transaction is a savepoint: what it did can be
// undone without the rest.
func (g GORM) Handle(ctx context.Context, o Order) error {
	tx, err := gormTx(ctx, g.db)
	if err != nil {
		return err
	}
	if err := tx.Model(&gormStock{}).Where("item = ?", o.Item).UpdateColumn("n", gorm.Expr("n - 1")).Error; err != nil {
		return err
	}
	if err := tx.Create(&gormSale{OrderID: o.ID, Item: o.Item}).Error; err != nil {
		return err
	}
	err = tx.Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&gormGift{OrderID: o.ID}).Error; err != nil {
			return err
		}
		if !o.gift() {
			return errNoGift
		}
		return nil
	})
	if errors.Is(err, errNoGift) {
		return nil
	}
	return err
}
