package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// PurgeWindow implements inbox.Keeper. It walks along the table's key, so that no
// index on the time is needed, and reads young claims too, so that a step is short
// where few are old.
func (k *Keeper) PurgeWindow(ctx context.Context, w inbox.PurgeWindow) (found []inbox.PurgeCandidate, err error) {
	b := k.d.Bind()
	fingerprint := "NULL"
	if k.t.Fingerprint {
		fingerprint = "fingerprint"
	}
	statement := "SELECT " + k.d.Keeping.text("message_key") + ", CASE WHEN " + k.old(b, w.Cutoff.UnixMicro()) + " THEN 1 ELSE 0 END, " + fingerprint +
		" FROM " + k.t.Claims + " WHERE consumer_name = " + b.Text(w.Consumer)
	if !w.First {
		statement += " AND message_key > " + b.Text(w.After)
	}
	statement += " ORDER BY message_key LIMIT " + strconv.Itoa(w.Limit)
	err = k.read(ctx, func(q querier) error {
		found, err = query(ctx, q, statement, b.Args, func(rows *sql.Rows) (found []inbox.PurgeCandidate, err error) {
			for rows.Next() {
				f := inbox.PurgeCandidate{Claim: inbox.Claim{Consumer: w.Consumer}}
				if err := rows.Scan(&f.Claim.Key, &f.Old, &f.Claim.Fingerprint); err != nil {
					return nil, err
				}
				found = append(found, f)
			}
			return found, rows.Err()
		})
		return err
	})
	if err != nil {
		return nil, Because(ctx, fmt.Errorf("read the next claims: %w", err))
	}
	return found, nil
}

// old is the condition that a claim is older than the cut-off.
func (k *Keeper) old(b *Binder, cutoff int64) string {
	return k.d.Keeping.latest("processed_at") + " < " + b.Int(cutoff)
}

// PurgeStep implements inbox.Keeper.
func (k *Keeper) PurgeStep(ctx context.Context, s inbox.PurgeStep) (res inbox.PurgeResult, err error) {
	err = k.write(ctx, func(tx *sql.Tx) error {
		res = inbox.PurgeResult{}
		row, ok, err := k.lock(ctx, tx, s.Consumer, k.d.Keeping.TryForUpdate)
		switch {
		case err != nil:
			return err
		case !ok:
			return inbox.ErrNotRegistered
		}
		if res.Busy, err = k.lease(ctx, tx, s); err != nil || res.Busy {
			return err
		}
		for _, a := range s.Acts {
			if err := k.audit(ctx, tx, a); err != nil {
				return err
			}
		}
		res.Horizon = row.Horizon
		if len(s.Keys)+len(s.Splits) == 0 {
			return nil
		}
		if res.Horizon, err = k.moveHorizon(ctx, tx, row, s.Cutoff); err != nil {
			return err
		}
		return k.deleteOld(ctx, tx, s, &res)
	})
	switch {
	case errors.Is(err, errLocked):
		return inbox.PurgeResult{Locked: true}, nil
	case err != nil:
		return inbox.PurgeResult{}, Because(ctx, fmt.Errorf("delete old claims: %w", err))
	}
	return res, nil
}

// lease takes the consumer for this purger, or tells that another one has it.
func (k *Keeper) lease(ctx context.Context, tx *sql.Tx, s inbox.PurgeStep) (busy bool, err error) {
	if err := k.keeping(ctx, tx, s.Consumer); err != nil {
		return false, err
	}
	// Read, not told from the number of changed rows: MySQL counts differently.
	b := k.d.Bind()
	statement := "SELECT 1 FROM " + k.t.Keeping + " WHERE consumer_name = " + b.Text(s.Consumer) + " AND purger <> " + b.Text(s.Purger) +
		" AND " + k.d.Keeping.Micros("purger_until") + " > " + k.d.Keeping.Now
	busy, err = query(ctx, tx, statement, b.Args, func(rows *sql.Rows) (bool, error) { return rows.Next(), rows.Err() })
	if err != nil || busy {
		return busy, err
	}
	_, err = k.exec(ctx, tx, func(b *Binder) string {
		set := "purger = NULL, purger_until = NULL"
		if !s.Last {
			set = "purger = " + b.Text(s.Purger) + ", purger_until = " + k.d.Keeping.Time(k.d.Keeping.Now+" + "+b.Int(s.Lease.Microseconds()))
		}
		return "UPDATE " + k.t.Keeping + " SET " + set + " WHERE consumer_name = " + b.Text(s.Consumer)
	})
	return false, err
}

// deleteOld deletes by the table's key, so that no other claim is locked or waited
// for.
func (k *Keeper) deleteOld(ctx context.Context, tx *sql.Tx, s inbox.PurgeStep, res *inbox.PurgeResult) error {
	for _, part := range []struct {
		keys  []string
		split bool
	}{{s.Keys, false}, {s.Splits, true}} {
		for keys := range slices.Chunk(part.keys, KeyStep) {
			n, err := k.exec(ctx, tx, func(b *Binder) string {
				statement := "DELETE FROM " + k.t.Claims + " WHERE consumer_name = " + b.Text(s.Consumer) + " AND " + k.d.Keeping.Among(b, "message_key", keys) +
					" AND " + k.old(b, s.Cutoff.UnixMicro())
				switch mark := inbox.SplitMark(); {
				case !k.t.Fingerprint:
				case part.split:
					statement += " AND fingerprint = " + b.Bytes(mark)
				default:
					statement += " AND (fingerprint IS NULL OR fingerprint <> " + b.Bytes(mark) + ")"
				}
				return statement
			})
			if err != nil {
				return err
			}
			res.Deleted += n
		}
	}
	return nil
}
