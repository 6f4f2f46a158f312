package sqliteinbox

import (
	"fmt"

	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

func keeping() sqlstore.Keeping {
	return sqlstore.Keeping{
		Now:         now,
		Micros:      func(column string) string { return column + " * 1000" },
		Time:        func(micros string) string { return "(" + micros + ") / 1000" },
		ProcessedAt: func(column string) string { return fmt.Sprintf(atMicros, column) },
		Among:       sqlstore.IsIn,
		Touch: func(t sqlstore.Table) string {
			return "UPDATE " + t.Keeping + " SET purger = purger WHERE 1 = 0"
		},
	}
}
