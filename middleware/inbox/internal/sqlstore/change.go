package sqlstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// exec runs one statement and tells the rows that it changed. text must bind in the
// order of the text.
func (k *Keeper) exec(ctx context.Context, tx *sql.Tx, text func(b *Binder) string) (int64, error) {
	b := k.d.Bind()
	statement := text(b)
	res, err := tx.ExecContext(ctx, statement, b.Args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// audit adds an act.
func (k *Keeper) audit(ctx context.Context, tx *sql.Tx, a inbox.Act) error {
	_, err := k.exec(ctx, tx, func(b *Binder) string {
		return "INSERT INTO " + k.t.Audit + " (at, who, why, act, consumer, message_key, detail) VALUES (" + k.d.Keeping.Time(k.d.Keeping.Now) + ", " +
			b.Text(a.Who) + ", " + b.Text(a.Why) + ", " + b.Text(a.Act) + ", " + b.Text(a.Consumer) + ", " + b.Text(a.Key) + ", " + b.Text(a.Detail) + ")"
	})
	if err != nil {
		return fmt.Errorf("write the audit: %w", err)
	}
	return nil
}

// Forget implements inbox.Keeper.
func (k *Keeper) Forget(ctx context.Context, c inbox.Claim, a inbox.Act) (ok bool, err error) {
	err = k.write(ctx, func(tx *sql.Tx) error {
		b := k.d.Bind()
		statement := k.d.Lookup(b, k.t, []inbox.Claim{c})
		recs, err := query(ctx, tx, statement, b.Args, func(rows *sql.Rows) ([]inbox.Record, error) { return ReadRecords(rows, []inbox.Claim{c}) })
		if err != nil {
			return err
		}
		n, err := k.exec(ctx, tx, func(b *Binder) string { return Delete(b, k.t, []inbox.Claim{c}) })
		if err != nil || n == 0 {
			return err
		}
		ok = true
		if r := recs[0]; r.Found {
			a.Detail = fmt.Sprintf("processed at %s, fingerprint %s", r.ProcessedAt.UTC().Format(time.RFC3339Nano), hex.EncodeToString(r.Fingerprint))
			if r.Split() {
				a.Detail += " (split)"
			}
		}
		return k.audit(ctx, tx, a)
	})
	if err != nil {
		return false, Because(ctx, fmt.Errorf("delete the claim: %w", err))
	}
	return ok, nil
}

// Change implements inbox.Keeper.
func (k *Keeper) Change(ctx context.Context, name string, edit inbox.EditConsumer) (row inbox.Consumer, err error) {
	err = k.write(ctx, func(tx *sql.Tx) error {
		row, err = k.edit(ctx, tx, name, edit)
		return err
	})
	if err != nil {
		return inbox.Consumer{}, Because(ctx, fmt.Errorf("change the consumer's row: %w", err))
	}
	return row, nil
}

// Rename implements inbox.Keeper.
func (k *Keeper) Rename(ctx context.Context, name string, edit inbox.EditConsumer) (moved int64, err error) {
	err = k.write(ctx, func(tx *sql.Tx) error {
		row, err := k.edit(ctx, tx, name, edit)
		if err != nil {
			return err
		}
		moved, err = k.exec(ctx, tx, func(b *Binder) string {
			return "UPDATE " + k.t.Claims + " SET consumer_name = " + b.Text(row.Name) + " WHERE consumer_name = " + b.Text(name)
		})
		return err
	})
	if err != nil {
		return 0, Because(ctx, fmt.Errorf("move the claims: %w", err))
	}
	return moved, nil
}

// edit changes a row that it locks, and writes the acts.
func (k *Keeper) edit(ctx context.Context, tx *sql.Tx, name string, edit inbox.EditConsumer) (row inbox.Consumer, err error) {
	row, ok, err := k.lock(ctx, tx, name, k.d.Keeping.ForUpdate)
	if err == nil && !ok {
		err = inbox.ErrNotRegistered
	}
	if err != nil {
		return row, err
	}
	now, err := k.clock(ctx, tx)
	if err != nil {
		return row, err
	}
	row, acts, err := edit(row, now)
	if err != nil || len(acts) == 0 {
		return row, err
	}
	former, err := FormerNames(row)
	if err != nil {
		return row, err
	}
	_, err = k.exec(ctx, tx, func(b *Binder) string {
		return "UPDATE " + k.t.Consumers + " SET name = " + b.Text(row.Name) + ", key_rule = " + b.Text(row.KeyRule) + ", mode = " + b.Text(row.Mode.String()) +
			", former_names = " + b.Text(former) + " WHERE name = " + b.Text(name)
	})
	if err != nil {
		return row, err
	}
	if row.Horizon, err = k.moveHorizon(ctx, tx, row, row.Horizon); err != nil {
		return row, err
	}
	if err := k.writeHold(ctx, tx, name, row); err != nil {
		return row, err
	}
	for _, a := range acts {
		if err := k.audit(ctx, tx, a); err != nil {
			return row, err
		}
	}
	return row, nil
}

// lock locks a consumer's row and reads it. With TryForUpdate it says errLocked
// where that would have to wait.
func (k *Keeper) lock(ctx context.Context, tx *sql.Tx, name, how string) (row inbox.Consumer, ok bool, err error) {
	got := true
	if how != "" {
		b := k.d.Bind()
		statement := "SELECT 1 FROM " + k.t.Consumers + " WHERE name = " + b.Text(name) + how
		got, err = query(ctx, tx, statement, b.Args, func(rows *sql.Rows) (bool, error) { return rows.Next(), rows.Err() })
		if err != nil && k.d.Keeping.Locked != nil && k.d.Keeping.Locked(err) {
			err = errLocked
		}
		if err != nil {
			return row, false, err
		}
	}
	row, ok, err = k.consumer(ctx, tx, name)
	if err == nil && ok && !got {
		err = errLocked
	}
	return row, ok, err
}

var errLocked = errors.New("another transaction has locked the consumer's row")

// moveHorizon to a time, unless it is there already.
func (k *Keeper) moveHorizon(ctx context.Context, tx *sql.Tx, row inbox.Consumer, to time.Time) (time.Time, error) {
	_, err := k.exec(ctx, tx, func(b *Binder) string {
		return "UPDATE " + k.t.Consumers + " SET horizon = " + k.d.Keeping.Time(b.Int(to.UnixMicro())) + " WHERE name = " + b.Text(row.Name) +
			" AND " + k.d.Keeping.Micros("horizon") + " < " + b.Int(to.UnixMicro())
	})
	if err != nil {
		return row.Horizon, fmt.Errorf("move the horizon: %w", err)
	}
	if to.Before(row.Horizon) {
		to = row.Horizon
	}
	return to, nil
}

// writeHold under the row's name, which was another one before where it is renamed.
func (k *Keeper) writeHold(ctx context.Context, tx *sql.Tx, was string, row inbox.Consumer) error {
	if err := k.keeping(ctx, tx, was); err != nil {
		return err
	}
	_, err := k.exec(ctx, tx, func(b *Binder) string {
		statement := "UPDATE " + k.t.Keeping + " SET consumer_name = " + b.Text(row.Name)
		if row.Held() {
			statement += ", held_since = " + k.d.Keeping.Time(b.Int(row.HeldSince.UnixMicro())) + ", held_by = " + b.Text(row.HeldBy) + ", held_why = " + b.Text(row.HeldWhy)
		} else {
			statement += ", held_since = NULL, held_by = NULL, held_why = NULL"
		}
		return statement + " WHERE consumer_name = " + b.Text(was)
	})
	return err
}

// keeping makes the consumer's row of the table for holds and leases, unless it is
// there. The lock on the registry's row keeps others out.
func (k *Keeper) keeping(ctx context.Context, tx *sql.Tx, name string) error {
	_, err := k.exec(ctx, tx, func(b *Binder) string {
		return "INSERT INTO " + k.t.Keeping + " (consumer_name) SELECT name FROM " + k.t.Consumers + " r WHERE r.name = " + b.Text(name) +
			" AND NOT EXISTS (SELECT 1 FROM " + k.t.Keeping + " h WHERE h.consumer_name = r.name)"
	})
	return err
}
