package postgres

import (
	"encoding/json"

	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// Keeping is sqlstore.Dialect's.
func Keeping() sqlstore.Keeping {
	return sqlstore.Keeping{
		// Not now(), which is the start of the transaction.
		Now:    Micros("clock_timestamp()"),
		Micros: Micros,
		Time: func(micros string) string {
			return "(timestamptz 'epoch' + (" + micros + ")::bigint * interval '1 microsecond')"
		},
		ProcessedAt: Micros,
		Among:       among,

		ForUpdate:    " FOR UPDATE",
		TryForUpdate: " FOR UPDATE SKIP LOCKED",
	}
}

// among makes one text for any number of keys, so that a driver's cache of
// statements holds one. The array is made first, then each key is looked up.
func among(b *sqlstore.Binder, column string, keys []string) string {
	list, err := json.Marshal(keys)
	if err != nil {
		panic(err) // they are strings
	}
	return column + " = ANY(ARRAY(SELECT jsonb_array_elements_text(" + b.Text(string(list)) + "::jsonb)))"
}
