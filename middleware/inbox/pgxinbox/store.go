package pgxinbox

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/postgres"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// store is an inbox.Store on a pgx pool. Safe for concurrent use.
type store struct {
	*sqlstore.Keeper

	pool      *pgxpool.Pool
	table     sqlstore.Table
	isolation pgx.TxIsoLevel
	durable   bool
	grammar   sqlstore.Grammar
	logger    *slog.Logger
	maxConns  int
	prepares  bool // the pool's connections prepare each statement once
}

var (
	_ inbox.Store  = (*store)(nil)
	_ inbox.Pooled = (*store)(nil)

	_ inbox.Overlapping = (*store)(nil)
)

func newStore(pool *pgxpool.Pool, t sqlstore.Table, c Config) *store {
	s := &store{
		Keeper: newKeeper(pool, t),
		pool:   pool, table: t, isolation: c.Isolation, durable: !c.AllowLossOnCrash, grammar: postgres.Grammar(),
		logger: c.Logger, maxConns: int(pool.Config().MaxConns),
		prepares: pool.Config().ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement,
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	return s
}

// MaxOpen implements inbox.Pooled.
func (s *store) MaxOpen() int { return s.maxConns }

// Class implements inbox.Store.
func (*store) Class(err error) inbox.Class { return postgres.Class(err) }

// Overlaps implements inbox.Overlapping. A snapshot that was taken before the commit
// would not have what the group before wrote.
func (s *store) Overlaps() bool { return s.isolation == pgx.ReadCommitted }

// Begin implements inbox.Store: BEGIN and the claim are one trip.
func (s *store) Begin(ctx context.Context, cs []inbox.Claim, o inbox.BeginOptions) (inbox.Session, []inbox.Record, error) {
	inKeyOrder := slices.SortedFunc(slices.Values(cs), func(a, b inbox.Claim) int {
		return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Key, b.Key))
	})
	var rows []sqlstore.Inserted
	var yielded bool
	tx, err := s.begin(ctx, s.isolation, func(batch *pgx.Batch) { s.queueClaim(batch, inKeyOrder, o) }, func(br pgx.BatchResults) (err error) {
		rows, yielded, err = readClaim(br, o)
		return err
	})
	if err != nil {
		if postgres.SQLState(err) == postgres.LockNotAvailable {
			err = fmt.Errorf("%w: %w", inbox.ErrBusy, err)
		}
		return nil, nil, sqlstore.Because(ctx, err)
	}
	recs, err := sqlstore.Arrange(cs, rows, func(old []inbox.Claim) ([]inbox.Record, error) { return s.lookup(ctx, tx, old) })
	if err != nil {
		tx.undo()
		return nil, nil, sqlstore.Because(ctx, err)
	}
	// Not before: it closes the connection when ctx ends, whoever uses that.
	sess := newSession(ctx, s, tx)
	sess.yielded = yielded
	for _, r := range recs {
		if r.New {
			sess.claims = append(sess.claims, r.Claim)
		}
	}
	return sess, recs, nil
}
