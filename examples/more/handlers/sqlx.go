package handlers

import (
	"context"
	"database/sql"
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jmoiron/sqlx"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

type sqlxSale struct {
	OrderID int64  `db:"order_id"`
	Item    string `db:"item"`
}

// SQLX is a handler with sqlx's package functions. They need no *sqlx.Tx, so the
// transaction stays the guarded one: prefer this.
func SQLX(ctx context.Context, o Order) error {
	tx, err := inbox.Tx(ctx)
	if err != nil {
		return err
	}
	sale := sqlxSale{OrderID: o.ID, Item: o.Item}
	for _, statement := range []string{
		"UPDATE stock SET n = n - 1 WHERE item = :item",
		"INSERT INTO sales (order_id, item) VALUES (:order_id, :item)",
	} {
		query, args, err := sqlx.Named(statement, sale)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, sqlx.Rebind(sqlx.DOLLAR, query), args...); err != nil {
			return err
		}
	}
	return nil
}

// Repositories that want a *sqlx.Tx take more: sqlx makes one only by beginning
// it. So let it begin the claim's transaction, with Begin in the Config of
// pginbox or mysqlinbox:
//
//	pginbox.Config{Begin: handlers.BeginSQLX(sqlx.NewDb(db, "postgres"))}
//
// and add SQLXMiddleware outside of the stack, so that the handler can find what
// was begun for its message.

type sqlxKey struct{}

// begun is the place where BeginSQLX leaves the transaction of one message.
type begun struct{ tx *sqlx.Tx }

// BeginSQLX is a Begin func. Its ctx carries what the message's context carries.
func BeginSQLX(db *sqlx.DB) func(context.Context, *sql.DB) (*sql.Tx, error) {
	return func(ctx context.Context, _ *sql.DB) (*sql.Tx, error) {
		tx, err := db.BeginTxx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			return nil, err
		}
		if b, ok := ctx.Value(sqlxKey{}).(*begun); ok {
			b.tx = tx
		}
		return tx.Tx, nil
	}
}

// SQLXMiddleware makes the place; each message has its own.
func SQLXMiddleware(h message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		msg.SetContext(context.WithValue(msg.Context(), sqlxKey{}, &begun{}))
		return h(msg)
	}
}

// sqlxTx is the claim's transaction as sqlx knows it. It is the raw one: do not
// call its Commit and Rollback. SQLTx tells the inbox that it is in use, which
// then looks more closely before it commits.
func sqlxTx(ctx context.Context) (*sqlx.Tx, error) {
	raw, err := inbox.SQLTx(ctx)
	if err != nil {
		return nil, err
	}
	b, ok := ctx.Value(sqlxKey{}).(*begun)
	if !ok || b.tx == nil || b.tx.Tx != raw {
		return nil, inbox.ConfigError("sqlx", errors.New("the inbox does not begin with BeginSQLX, or SQLXMiddleware is not outside of the stack"))
	}
	return b.tx, nil
}

// SQLXTx is a handler on a *sqlx.Tx.
func SQLXTx(ctx context.Context, o Order) error {
	tx, err := sqlxTx(ctx)
	if err != nil {
		return err
	}
	sale := sqlxSale{OrderID: o.ID, Item: o.Item}
	if _, err := tx.NamedExecContext(ctx, "UPDATE stock SET n = n - 1 WHERE item = :item", sale); err != nil {
		return err
	}
	_, err = tx.NamedExecContext(ctx, "INSERT INTO sales (order_id, item) VALUES (:order_id, :item)", sale)
	return err
}
