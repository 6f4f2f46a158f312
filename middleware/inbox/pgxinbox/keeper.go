package pgxinbox

import (
	"database/sql"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sekali-mq/sekali/middleware/inbox/internal/postgres"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// newKeeper is the operator's side, the same as pginbox's. A handle of
// database/sql has a goroutine, so each act has its own: nothing is left when the
// caller closes the pool.
func newKeeper(pool *pgxpool.Pool, t sqlstore.Table) *sqlstore.Keeper {
	return sqlstore.NewKeeper(func() (*sql.DB, func() error) {
		db := stdlib.OpenDBFromPool(pool)
		return db, db.Close
	}, &sqlstore.Dialect{Bind: postgres.Parameters, Lookup: postgres.Lookup, Keeping: postgres.Keeping()}, t)
}
