package sqliteinbox

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// now is the database's clock in microseconds, at the millisecond that SQLite
// gives.
const now = `CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000`

// atMicros reads processed_at in microseconds. Our tables have integer
// milliseconds; an adopted one may have CURRENT_TIMESTAMP's text.
const atMicros = `CASE typeof(%[1]s) WHEN 'integer' THEN %[1]s * 1000 WHEN 'text' THEN CAST(round(unixepoch(%[1]s, 'subsec') * 1000) AS INTEGER) * 1000 END`

func bind() *sqlstore.Binder { return &sqlstore.Binder{Mark: sqlstore.QuestionMarks} }

func dialect(q *queue) *sqlstore.Dialect {
	return &sqlstore.Dialect{
		Grammar: sqlstore.Grammar{
			// The conflict clause is refused where it is seen; elsewhere (behind WITH, in
			// a schema) what follows it is undone, see pin.
			Refused:   append([]string{"INSERT OR ROLLBACK", "UPDATE OR ROLLBACK"}, sqlstore.TransactionRefused...),
			Allowed:   sqlstore.TransactionAllowed,
			Backticks: true,
			Brackets:  true,
		},
		Bind:     bind,
		Insert:   insert,
		Lookup:   lookup,
		Split:    split,
		Register: register,
		Keeping:  keeping(),

		Enter:         q.enter,
		WaitByContext: true,
		Pin:           pin,
		Autocommits:   true,
		Hold:          "SAVEPOINT " + sqlstore.Savepoint,
		Renew:         "SAVEPOINT " + sqlstore.Savepoint,
		NoSavepoint:   func(err error) bool { return code(err) == codeError },
		Prove:         prove,

		Class:       class,
		Busy:        busy,
		Dooms:       dooms,
		Uncommitted: uncommitted,
		Undone:      undone,
	}
}

func insert(b *sqlstore.Binder, t sqlstore.Table, cs []inbox.Claim, _ time.Duration) string {
	if len(cs) == 0 {
		return ""
	}
	columns, row := "consumer_name, message_key", func(_ int, c inbox.Claim) string {
		return "(" + b.Text(c.Consumer) + ", " + b.Text(c.Key) + ")"
	}
	if t.Fingerprint {
		columns, row = columns+", fingerprint", func(_ int, c inbox.Claim) string {
			return "(" + b.Text(c.Consumer) + ", " + b.Text(c.Key) + ", " + b.Bytes(c.Fingerprint) + ")"
		}
	}
	return "INSERT INTO " + t.Claims + " (" + columns + ") VALUES " + sqlstore.Join(cs, ", ", row) +
		" ON CONFLICT (consumer_name, message_key) DO NOTHING" +
		" RETURNING consumer_name, message_key, " + fmt.Sprintf(atMicros, "processed_at")
}

func lookup(b *sqlstore.Binder, t sqlstore.Table, cs []inbox.Claim) string {
	fingerprint := "NULL"
	if t.Fingerprint {
		fingerprint = "p.fingerprint"
	}
	at := fmt.Sprintf(atMicros, "p.processed_at")
	return "WITH v(n, c, k) AS (VALUES " + sqlstore.Join(cs, ", ", func(n int, c inbox.Claim) string {
		return "(" + b.Int(int64(n)) + ", " + b.Text(c.Consumer) + ", " + b.Text(c.Key) + ")"
	}) + ") SELECT v.n, p.message_key IS NOT NULL, " + fingerprint + ", " + at + ", " + now + " - " + at + ", r.horizon * 1000 FROM v" +
		" LEFT JOIN " + t.Claims + " p ON p.consumer_name = v.c AND p.message_key = v.k" +
		" LEFT JOIN " + t.Consumers + " r ON r.name = v.c"
}

func split(b *sqlstore.Binder, t sqlstore.Table, cs []inbox.Claim, mark []byte) string {
	return "UPDATE " + t.Claims + " SET fingerprint = " + b.Bytes(mark) + " WHERE " + sqlstore.Join(cs, " OR ", func(_ int, c inbox.Claim) string {
		return "(consumer_name = " + b.Text(c.Consumer) + " AND message_key = " + b.Text(c.Key) + ")"
	})
}

func register(b *sqlstore.Binder, t sqlstore.Table, c inbox.Consumer, former string) string {
	return "INSERT INTO " + t.Consumers + " (name, service, queue, key_rule, mode, former_names) VALUES (" +
		b.Text(c.Name) + ", " + b.Text(c.Service) + ", " + b.Text(c.Queue) + ", " + b.Text(c.KeyRule) + ", " +
		b.Text(c.Mode.String()) + ", " + b.Text(former) + ") ON CONFLICT (name) DO NOTHING"
}

// prove: the savepoint is gone with the transaction in which it was set, after
// COMMIT; BEGIN too. SQLite has no number of its own for that.
func prove(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "RELEASE SAVEPOINT "+sqlstore.Savepoint)
	if err == nil || code(err) != codeError {
		return err
	}
	return fmt.Errorf("%w: %w", inbox.ErrEnded, err)
}
