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
	settings := settings(b, wait, durable)
	switch len(cs) {
	case 0:
		return "SELECT NULL::text, NULL::text, NULL::bigint FROM " + settings + " WHERE s.mark IS NULL"
	case 1: // the planner has half the work
		values := b.Text(cs[0].Consumer) + "::varchar, " + b.Text(cs[0].Key) + "::varchar"
		if t.Fingerprint {
			values += ", " + b.Bytes(cs[0].Fingerprint) + "::bytea"
		}
		return insertion(t, values, settings)
	}
	return insertionOf(t, settings, "(VALUES "+sqlstore.Join(cs, ", ", func(n int, c inbox.Claim) string {
		row := "(" + strconv.Itoa(n) + ", " + b.Text(c.Consumer) + "::varchar, " + b.Text(c.Key) + "::varchar"
		if t.Fingerprint {
			row += ", " + b.Bytes(c.Fingerprint) + "::bytea"
		}
		return row + ")"
	})+") v(n, c, k"+fingerprintName(t)+")")
}

// InsertArrays is Insert for a driver that binds arrays: the text is the same for
// every number of claims. The arrays of consumers, keys and, where the table has
// them, fingerprints are the arguments behind those that b has then.
func InsertArrays(b *sqlstore.Binder, t sqlstore.Table, wait time.Duration, durable bool) string {
	settings := settings(b, wait, durable)
	n := len(b.Args)
	arrays := "$" + strconv.Itoa(n+1) + "::varchar[], $" + strconv.Itoa(n+2) + "::varchar[]"
	if t.Fingerprint {
		arrays += ", $" + strconv.Itoa(n+3) + "::bytea[]"
	}
	return insertionOf(t, settings, "unnest("+arrays+") WITH ORDINALITY v(c, k"+fingerprintName(t)+", n)")
}

func settings(b *sqlstore.Binder, wait time.Duration, durable bool) string {
	settings := "(SELECT " + limit(b, wait) + ", " + mark
	if durable {
		settings += ", " + durably
	}
	return settings + ") s"
}

// insertionOf the rows of claims, in their order.
func insertionOf(t sqlstore.Table, settings, claims string) string {
	values := "v.c, v.k"
	if t.Fingerprint {
		values += ", v.f"
	}
	return insertion(t, values, settings+", "+claims+" ORDER BY v.n")
}

func insertion(t sqlstore.Table, values, from string) string {
	columns := "consumer_name, message_key"
	if t.Fingerprint {
		columns += ", fingerprint"
	}
	return "INSERT INTO " + t.Claims + " (" + columns + ") SELECT " + values + " FROM " + from +
		" ON CONFLICT (consumer_name, message_key) DO NOTHING RETURNING consumer_name, message_key, " + Micros("processed_at")
}

// Lock is sqlstore.Dialect's. The number is that of the name in one of the
// server's own hashes, with another seed than anybody else is likely to take. It
// returns one row: whether it yielded. The functions are volatile, so the planner
// keeps the subquery as it is, and CASE calls no more of them than it must. A shared
// lock is not to be had while somebody waits for it alone.
func Lock(b *sqlstore.Binder, _ sqlstore.Table, name string, mode inbox.LockMode, wait time.Duration) string {
	const alone, shared = "(SELECT true FROM pg_advisory_xact_lock(s.id))", "(SELECT true FROM pg_advisory_xact_lock_shared(s.id))"
	var lock string
	switch mode {
	case inbox.LockAlone:
		lock = "NOT " + alone
	case inbox.LockShared:
		lock = "NOT " + shared
	case inbox.LockYielding:
		lock = "CASE WHEN pg_try_advisory_xact_lock_shared(s.id) THEN false ELSE " + alone + " END"
	}
	return "SELECT " + lock + " FROM (SELECT hashtextextended(" + b.Text(name) + "::text, 7521983) AS id, " + limit(b, wait) + " AS set) s WHERE s.set IS NOT NULL"
}

// Limit is sqlstore.Dialect's.
func Limit(b *sqlstore.Binder, wait time.Duration) string { return "SELECT " + limit(b, wait) }

func limit(b *sqlstore.Binder, wait time.Duration) string {
	return "set_config('lock_timeout', " + b.Text(strconv.FormatInt(max(1, wait.Milliseconds()), 10)) + ", true)"
}

func fingerprintName(t sqlstore.Table) string {
	if t.Fingerprint {
		return ", f"
	}
	return ""
}

// Micros is sqlstore.Dialect's.
func Micros(expr string) string { return "(extract(epoch FROM " + expr + ") * 1000000)::bigint" }

// Lookup is sqlstore.Dialect's.
func Lookup(b *sqlstore.Binder, t sqlstore.Table, cs []inbox.Claim) string {
	fingerprint := "NULL::bytea"
	if t.Fingerprint {
		fingerprint = "p.fingerprint"
	}
	return "SELECT v.n, (p.message_key IS NOT NULL)::int, " + fingerprint + ", " + Micros("p.processed_at") + ", " +
		Micros("clock_timestamp() - p.processed_at") + ", " + Micros("r.horizon") + " FROM (VALUES " +
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
