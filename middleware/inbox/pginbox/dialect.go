package pginbox

import (
	"context"
	"database/sql"
	"strconv"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// dialect for a driver; durable makes the claim's commit synchronous.
func dialect(d driverKind, durable bool) *sqlstore.Dialect {
	bind := d.bind
	return &sqlstore.Dialect{
		Grammar: sqlstore.Grammar{
			// RESET ALL and DISCARD would take the mark of the claim's transaction.
			Refused:        append([]string{"ABORT", "PREPARE TRANSACTION", "RESET ALL", "DISCARD"}, sqlstore.TransactionRefused...),
			Allowed:        sqlstore.TransactionAllowed,
			Unjudged:       []string{"CALL", "DO"},
			DollarQuotes:   true,
			NestedComments: true,
		},
		Bind: bind,
		Insert: func(b *sqlstore.Binder, t sqlstore.Table, cs []inbox.Claim, wait time.Duration) string {
			return insert(b, t, cs, wait, durable)
		},
		Lookup:   lookup,
		Split:    split,
		Register: register,
		Consumer: consumer,

		Prove:  prove,
		Status: txStatus,

		Class:       class,
		Busy:        func(err error) bool { return sqlState(err) == lockNotAvailable },
		Dooms:       func(error) bool { return true },
		Aborted:     func(err error) bool { return sqlState(err) != "" },
		Uncommitted: uncommitted,
	}
}

const (
	mark = `set_config('sekali.claim', '1', true) AS mark`
	// durably raises synchronous_commit where it is off; remote_apply and the like
	// stay.
	durably = `set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)`
)

// insert puts lock limit, mark and durability into the claim's own statement.
// The functions are volatile, so the planner keeps the subquery as it is, and
// its row must be there before the first claim is inserted. The settings are
// local: they end with the transaction.
func insert(b *sqlstore.Binder, t sqlstore.Table, cs []inbox.Claim, wait time.Duration, durable bool) string {
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

func lookup(b *sqlstore.Binder, t sqlstore.Table, cs []inbox.Claim) string {
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

func split(b *sqlstore.Binder, t sqlstore.Table, cs []inbox.Claim, splitMark []byte) string {
	return "UPDATE " + t.Claims + " SET fingerprint = " + b.Bytes(splitMark) + "::bytea FROM (SELECT " + durably + ") s WHERE " +
		sqlstore.Join(cs, " OR ", func(_ int, c inbox.Claim) string {
			return "(consumer_name = " + b.Text(c.Consumer) + "::varchar AND message_key = " + b.Text(c.Key) + "::varchar)"
		})
}

func register(b *sqlstore.Binder, t sqlstore.Table, c inbox.Consumer, former string) string {
	return "INSERT INTO " + t.Consumers + " (name, service, queue, key_rule, mode, former_names) VALUES (" +
		b.Text(c.Name) + ", " + b.Text(c.Service) + ", " + b.Text(c.Queue) + ", " + b.Text(c.KeyRule) + ", " +
		b.Text(c.Mode.String()) + ", " + b.Text(former) + ") ON CONFLICT (name) DO NOTHING"
}

func consumer(b *sqlstore.Binder, t sqlstore.Table, name string) string {
	return "SELECT name, service, queue, key_rule, mode, " + micros("horizon") + ", former_names FROM " + t.Consumers +
		" WHERE name = " + b.Text(name) + "::varchar"
}

// prove asks for the mark: a local setting ends with its transaction, after
// COMMIT; BEGIN and COMMIT AND CHAIN too, and stays after ROLLBACK TO. Without
// arguments and with the answer in the command tag it is one round trip on every
// driver.
func prove(ctx context.Context, tx *sql.Tx) error {
	res, err := tx.ExecContext(ctx, "SELECT 1 WHERE current_setting('sekali.claim', true) = '1'")
	if sqlState(err) == inFailedTransaction {
		return &inbox.Swallowed{Err: err}
	}
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	if n != 1 {
		return inbox.ErrEnded
	}
	return nil
}
