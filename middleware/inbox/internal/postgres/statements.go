package postgres

import (
	"strconv"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// Marked is true while the transaction in which Insert ran is the open one: a
// local setting ends with its transaction, after COMMIT; BEGIN and COMMIT AND
// CHAIN too, and stays after ROLLBACK TO.
const Marked = `current_setting('sekali.claim', true) = '1'`

const (
	mark = `set_config('sekali.claim', '1', true) AS mark`
	// durably raises synchronous_commit where it is off; remote_apply and the like
	// stay.
	durably = `set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)`
)

// Insert puts lock limit, mark and durability into the claim's own statement.
// The functions are volatile, so the planner keeps the subquery as it is, and
// its row must be there before the first claim is inserted. The settings are
// local: they end with the transaction.
func Insert(b *sqlstore.Binder, t sqlstore.Table, cs []inbox.Claim, wait time.Duration, durable bool) string {
	settings := "(SELECT set_config('lock_timeout', " + b.Text(strconv.FormatInt(max(1, wait.Milliseconds()), 10)) + ", true), " + mark
	if durable {
		settings += ", " + durably
	}
	settings += ") s"
	if len(cs) == 0 {
		return "SELECT NULL::text, NULL::text, NULL::bigint FROM " + settings + " WHERE s.mark IS NULL"
	}
	columns, values := "consumer_name, message_key", "v.c, v.k"
	if t.Fingerprint {
		columns, values = columns+", fingerprint", values+", v.f"
	}
	return "INSERT INTO " + t.Claims + " (" + columns + ") SELECT " + values + " FROM " + settings + ", (VALUES " +
		sqlstore.Join(cs, ", ", func(n int, c inbox.Claim) string {
			row := "(" + strconv.Itoa(n) + ", " + b.Text(c.Consumer) + "::varchar, " + b.Text(c.Key) + "::varchar"
			if t.Fingerprint {
				row += ", " + b.Bytes(c.Fingerprint) + "::bytea"
			}
			return row + ")"
		}) + ") v(n, c, k" + fingerprintName(t) + ") ORDER BY v.n" +
		" ON CONFLICT (consumer_name, message_key) DO NOTHING" +
		" RETURNING consumer_name, message_key, " + micros("processed_at")
}

func fingerprintName(t sqlstore.Table) string {
	if t.Fingerprint {
		return ", f"
	}
	return ""
}

func micros(expr string) string { return "(extract(epoch FROM " + expr + ") * 1000000)::bigint" }

// Lookup is sqlstore.Dialect's.
func Lookup(b *sqlstore.Binder, t sqlstore.Table, cs []inbox.Claim) string {
	fingerprint := "NULL::bytea"
	if t.Fingerprint {
		fingerprint = "p.fingerprint"
	}
	return "SELECT v.n, (p.message_key IS NOT NULL)::int, " + fingerprint + ", " + micros("p.processed_at") + ", " +
		micros("clock_timestamp() - p.processed_at") + ", " + micros("r.horizon") + " FROM (VALUES " +
		sqlstore.Join(cs, ", ", func(n int, c inbox.Claim) string {
			return "(" + strconv.Itoa(n) + ", " + b.Text(c.Consumer) + "::varchar, " + b.Text(c.Key) + "::varchar)"
		}) + ") v(n, c, k) LEFT JOIN " + t.Claims + " p ON p.consumer_name = v.c AND p.message_key = v.k" +
		" LEFT JOIN " + t.Consumers + " r ON r.name = v.c"
}

// Split is sqlstore.Dialect's.
func Split(b *sqlstore.Binder, t sqlstore.Table, cs []inbox.Claim, splitMark []byte) string {
	return "UPDATE " + t.Claims + " SET fingerprint = " + b.Bytes(splitMark) + "::bytea FROM (SELECT " + durably + ") s WHERE " +
		sqlstore.Join(cs, " OR ", func(_ int, c inbox.Claim) string {
			return "(consumer_name = " + b.Text(c.Consumer) + "::varchar AND message_key = " + b.Text(c.Key) + "::varchar)"
		})
}

// Register is sqlstore.Dialect's.
func Register(b *sqlstore.Binder, t sqlstore.Table, c inbox.Consumer, former string) string {
	return "INSERT INTO " + t.Consumers + " (name, service, queue, key_rule, mode, former_names) VALUES (" +
		b.Text(c.Name) + ", " + b.Text(c.Service) + ", " + b.Text(c.Queue) + ", " + b.Text(c.KeyRule) + ", " +
		b.Text(c.Mode.String()) + ", " + b.Text(former) + ") ON CONFLICT (name) DO NOTHING"
}
