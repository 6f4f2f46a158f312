package mysqlinbox

import (
	"context"
	"database/sql"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// OpenPlain opens an inbox as on a server that is no MariaDB: only statements
// that MySQL has too.
func OpenPlain(ctx context.Context, db *sql.DB, c Config) (*inbox.Inbox, error) {
	return open(ctx, db, c, true)
}
