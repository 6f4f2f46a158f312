package mysqlinbox

import (
	"encoding/hex"
	"strconv"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// bind writes values into the text: a statement with arguments costs a second
// round trip, unless the pool was opened with interpolateParams.
func bind() *sqlstore.Binder { return &sqlstore.Binder{Literal: literal} }

// literal of a value in digits only, so that it means the same whatever the
// server's SQL mode and the connection's character set.
func literal(v any) string {
	switch v := v.(type) {
	case string:
		return text(v)
	case []byte:
		if v == nil {
			return "NULL"
		}
		return "x'" + hex.EncodeToString(v) + "'"
	case int64:
		return strconv.FormatInt(v, 10)
	}
	panic("mysqlinbox: a Binder has no other values")
}

// text of a string that is UTF-8. Beside a VARBINARY column it is its bytes.
func text(s string) string { return "_utf8mb4 x'" + hex.EncodeToString([]byte(s)) + "'" }

// Microseconds since 1970, UTC, by the server's clock and whatever the session's
// time zone.
const (
	now           = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
	nowAsDatetime = "UTC_TIMESTAMP(6)"
)

func datetimeMicros(column string) string {
	return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " + column + ")"
}

// micros of processed_at. An adopted table may have a TIMESTAMP, which the
// server keeps in UTC itself.
func (s *store) micros(column string) string {
	if s.columns.timestamp {
		return "CAST(UNIX_TIMESTAMP(" + column + ") * 1000000 AS SIGNED)"
	}
	return datetimeMicros(column)
}

// insertion of claims. With aside, that expression is evaluated on the way.
func (s *store) insertion(t sqlstore.Table, cs []inbox.Claim, aside string) string {
	columns := "consumer_name, message_key"
	if !s.columns.timestamp {
		columns += ", processed_at" // a TIMESTAMP has its default
	}
	if t.Fingerprint {
		columns += ", fingerprint"
	}
	return "INSERT INTO " + t.Claims + " (" + columns + ") VALUES " + sqlstore.Join(cs, ", ", func(n int, c inbox.Claim) string {
		row := text(c.Consumer)
		if aside != "" && n == 0 {
			row = "IF(" + aside + " IS NULL, NULL, " + row + ")"
		}
		row = "(" + row + ", " + text(c.Key)
		if !s.columns.timestamp {
			row += ", " + nowAsDatetime
		}
		if t.Fingerprint {
			row += ", " + bind().Bytes(c.Fingerprint)
		}
		return row + ")"
	})
}

func (s *store) lookup(_ *sqlstore.Binder, t sqlstore.Table, cs []inbox.Claim) string {
	fingerprint := "NULL"
	if t.Fingerprint {
		fingerprint = "p.fingerprint"
	}
	at := s.micros("p.processed_at")
	// A list of VALUES is written differently on MySQL and MariaDB.
	return "SELECT v.n, p.message_key IS NOT NULL, " + fingerprint + ", " + at + ", " + now + " - " + at + ", " + datetimeMicros("r.horizon") +
		" FROM (" + sqlstore.Join(cs, " UNION ALL ", func(n int, c inbox.Claim) string {
		return "SELECT " + strconv.Itoa(n) + " AS n, " + text(c.Consumer) + " AS c, " + text(c.Key) + " AS k"
	}) + ") v LEFT JOIN " + t.Claims + " p ON p.consumer_name = v.c AND p.message_key = v.k" +
		" LEFT JOIN " + t.Consumers + " r ON r.name = v.c"
}

// lock takes the row of a registered consumer.
func (s *store) lock(b *sqlstore.Binder, t sqlstore.Table, name string, mode inbox.LockMode, wait time.Duration) string {
	if mode != inbox.LockAlone {
		return "" // a deadlock is seen at once here, so that each instance may well meet its own
	}
	query := "SELECT 0 FROM " + t.Consumers + " WHERE name = " + b.Text(name) + " FOR UPDATE"
	if s.mariaDB {
		query = "SET STATEMENT innodb_lock_wait_timeout = " + strconv.Itoa(seconds(wait)) + " FOR " + query
	}
	return query
}

func split(b *sqlstore.Binder, t sqlstore.Table, cs []inbox.Claim, mark []byte) string {
	return "UPDATE " + t.Claims + " SET fingerprint = " + b.Bytes(mark) + " WHERE " + sqlstore.Join(cs, " OR ", func(_ int, c inbox.Claim) string {
		return "(consumer_name = " + b.Text(c.Consumer) + " AND message_key = " + b.Text(c.Key) + ")"
	})
}

func register(b *sqlstore.Binder, t sqlstore.Table, c inbox.Consumer, former string) string {
	return "INSERT INTO " + t.Consumers + " (name, service, queue, key_rule, mode, horizon, former_names) VALUES (" +
		b.Text(c.Name) + ", " + b.Text(c.Service) + ", " + b.Text(c.Queue) + ", " + b.Text(c.KeyRule) + ", " +
		b.Text(c.Mode.String()) + ", " + nowAsDatetime + ", " + b.Text(former) + ")"
}
