package mysqlinbox

import (
	"context"
	"database/sql"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// OpenPlain opens an inbox as on a server that is no MariaDB: only statements
// that MySQL has too.
func OpenPlain(ctx context.Context, db *sql.DB, c Config) (*inbox.Inbox, error) {
	store, err := openStore(ctx, db, c, true)
	if err != nil {
		return nil, err
	}
	return inbox.New(store, c.Config)
}

// OpenStore opens what lies under an inbox.
func OpenStore(ctx context.Context, db *sql.DB, c Config, plain bool) (inbox.Store, error) {
	return openStore(ctx, db, c, plain)
}
