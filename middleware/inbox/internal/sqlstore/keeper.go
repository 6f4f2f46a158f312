package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Keeper is the operator's side of a store on database/sql. Safe for concurrent
// use.
type Keeper struct {
	open func() (db *sql.DB, done func() error)
	d    *Dialect
	t    Table
}

var _ inbox.Keeper = (*Keeper)(nil)

// NewKeeper puts a dialect on a pool. open gives the pool for one act; done is
// called after it. The schema must have been checked.
func NewKeeper(open func() (db *sql.DB, done func() error), d *Dialect, t Table) *Keeper {
	return &Keeper{open: open, d: d, t: t}
}

// read runs fn on the pool, or in a transaction where connections do not
// autocommit.
func (k *Keeper) read(ctx context.Context, fn func(querier) error) (err error) {
	db, done := k.open()
	defer func() { err = errors.Join(err, done()) }()
	if !k.d.ReadTx {
		return fn(db)
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	return fn(tx)
}

// write runs fn in a transaction of its own.
func (k *Keeper) write(ctx context.Context, fn func(tx *sql.Tx) error) (err error) {
	if k.d.Enter != nil {
		leave, err := k.d.Enter(ctx, writeWait)
		if err != nil {
			return err
		}
		defer leave()
	}
	db, done := k.open()
	defer func() { err = errors.Join(err, done()) }()
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if touch := k.d.Keeping.Touch; touch != nil {
		if _, err := tx.ExecContext(ctx, touch(k.t)); err != nil {
			return err
		}
	}
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// query runs a SELECT and hands its rows to scan.
func query[T any](ctx context.Context, q querier, statement string, args []any, scan func(*sql.Rows) (T, error)) (v T, err error) {
	rows, err := q.QueryContext(ctx, statement, args...)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	return scan(rows)
}

// Clock implements inbox.Keeper.
func (k *Keeper) Clock(ctx context.Context) (now time.Time, err error) {
	err = k.read(ctx, func(q querier) error {
		now, err = k.clock(ctx, q)
		return err
	})
	if err != nil {
		return now, Because(ctx, fmt.Errorf("read the database's clock: %w", err))
	}
	return now, nil
}

func (k *Keeper) clock(ctx context.Context, q querier) (now time.Time, err error) {
	return query(ctx, q, "SELECT "+k.d.Keeping.Now, nil, func(rows *sql.Rows) (now time.Time, err error) {
		if !rows.Next() {
			return now, errors.Join(rows.Err(), errors.New("no answer"))
		}
		var n int64
		if err := rows.Scan(&n); err != nil {
			return now, err
		}
		return time.UnixMicro(n), rows.Err()
	})
}

// Consumer implements inbox.Store.
func (k *Keeper) Consumer(ctx context.Context, name string) (c inbox.Consumer, ok bool, err error) {
	err = k.read(ctx, func(q querier) error {
		c, ok, err = k.consumer(ctx, q, name)
		return err
	})
	if err != nil {
		return inbox.Consumer{}, false, Because(ctx, fmt.Errorf("read the consumer's row: %w", err))
	}
	return c, ok, nil
}

func (k *Keeper) consumer(ctx context.Context, q querier, name string) (c inbox.Consumer, ok bool, err error) {
	b := k.d.Bind()
	statement := k.d.Keeping.Consumers(b, k.t, name)
	c, err = query(ctx, q, statement, b.Args, func(rows *sql.Rows) (c inbox.Consumer, err error) {
		c, ok, err = ReadConsumer(rows, k.t)
		return c, err
	})
	return c, ok, err
}

// Consumers implements inbox.Keeper.
func (k *Keeper) Consumers(ctx context.Context) (cs []inbox.Consumer, err error) {
	err = k.read(ctx, func(q querier) error {
		b := k.d.Bind()
		statement := k.d.Keeping.Consumers(b, k.t)
		cs, err = query(ctx, q, statement, b.Args, func(rows *sql.Rows) ([]inbox.Consumer, error) { return ReadConsumers(rows, k.t) })
		return err
	})
	if err != nil {
		return nil, Because(ctx, fmt.Errorf("read the registry: %w", err))
	}
	return cs, nil
}

// Stats implements inbox.Keeper.
func (k *Keeper) Stats(ctx context.Context, consumer string) (s inbox.Stats, err error) {
	err = k.read(ctx, func(q querier) error {
		b := k.d.Bind()
		splits, at := "0", k.d.Keeping.ProcessedAt("processed_at")
		if k.t.Fingerprint {
			splits = "coalesce(sum(CASE WHEN fingerprint = " + b.Bytes(inbox.SplitMark()) + " THEN 1 ELSE 0 END), 0)"
		}
		statement := "SELECT count(*), " + splits + ", min(" + at + "), max(" + at + "), " + k.d.Keeping.Now + " FROM " + k.t.Claims + " WHERE consumer_name = " + b.Text(consumer)
		s, err = query(ctx, q, statement, b.Args, func(rows *sql.Rows) (s inbox.Stats, err error) {
			if !rows.Next() {
				return s, errors.Join(rows.Err(), errors.New("no answer"))
			}
			var oldest, newest, now sql.NullInt64
			if err := rows.Scan(&s.Claims, &s.Splits, &oldest, &newest, &now); err != nil {
				return s, err
			}
			s.Oldest, s.Newest, s.Now = micros(oldest), micros(newest), micros(now)
			return s, rows.Err()
		})
		return err
	})
	if err != nil {
		return inbox.Stats{}, Because(ctx, fmt.Errorf("count the claims: %w", err))
	}
	return s, nil
}

// Acts implements inbox.Keeper.
func (k *Keeper) Acts(ctx context.Context, limit int) (acts []inbox.Act, err error) {
	text := k.d.Keeping.text
	statement := "SELECT " + k.d.Keeping.Micros("at") + ", " + text("who") + ", " + text("why") + ", " + text("act") + ", " + text("consumer") + ", " +
		text("message_key") + ", " + text("detail") + " FROM " + k.t.Audit + " ORDER BY id DESC LIMIT " + strconv.Itoa(limit)
	err = k.read(ctx, func(q querier) error {
		acts, err = query(ctx, q, statement, nil, func(rows *sql.Rows) (acts []inbox.Act, err error) {
			for rows.Next() {
				var a inbox.Act
				var at sql.NullInt64
				if err := rows.Scan(&at, &a.Who, &a.Why, &a.Act, &a.Consumer, &a.Key, &a.Detail); err != nil {
					return nil, err
				}
				a.At = micros(at)
				acts = append(acts, a)
			}
			return acts, rows.Err()
		})
		return err
	})
	if err != nil {
		return nil, Because(ctx, fmt.Errorf("read the audit: %w", err))
	}
	return acts, nil
}
