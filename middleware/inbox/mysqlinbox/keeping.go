package mysqlinbox

import "github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"

func (s *store) keeping() sqlstore.Keeping {
	k := sqlstore.Keeping{
		Now:    now,
		Micros: datetimeMicros,
		Time: func(micros string) string {
			return "TIMESTAMPADD(MICROSECOND, " + micros + ", CAST('1970-01-01' AS DATETIME(6)))"
		},
		ProcessedAt: s.micros,
		// The connection's character set may not hold all of a text.
		Text:  func(column string) string { return "CAST(" + column + " AS BINARY)" },
		Among: sqlstore.IsIn,

		ForUpdate:    " FOR UPDATE",
		TryForUpdate: " FOR UPDATE NOWAIT",
		Locked:       func(err error) bool { n := number(err); return n == lockWaitTimeout || n == lockNoWait },
	}
	if s.columns.local {
		k.Latest = func(column string) string { return s.micros(column) + westernmost }
	}
	return k
}

// westernmost is what the session's time can be behind UTC, and a day's saving: a
// claim that is adopted with such a time may be that much younger.
const westernmost = " + 13 * 3600 * 1000000"
