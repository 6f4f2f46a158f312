// Package handlers has the same handler five times, written with what services
// use for their SQL: sqlc, sqlx, GORM, bun and pgx. Each file shows one of them,
// from the opening of the library to the writes:
//
//	sqlc.go    the claim's transaction is its DBTX
//	sqlx.go    package functions on the claim's transaction, or a *sqlx.Tx through Config.Begin
//	gorm.go    the claim's transaction is the session's ConnPool; nested transactions are savepoints
//	bun.go     Conn(tx) on each query
//	pgx.go     pgxinbox gives a pgx.Tx
//
// The tests run each of them on PostgreSQL, on a Watermill router: with copies at
// once, with handlers that fail and panic after their writes, and with the books
// checked at the end.
package handlers

// Order is the event that the handlers are for. Each takes one piece out of the
// stock and notes the sale; every second buyer gets a gift in those that show how
// a part of the work is undone.
type Order struct {
	ID   int64  `json:"id"`
	Item string `json:"item"`
}

func (o Order) gift() bool { return o.ID%2 == 0 }
