package dlq

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

// errLostLease: another process took the queues over, or the run was cancelled.
var errLostLease = errors.New("another process has taken this run's queues over, or it was cancelled")

// take gets the leases of queues for a run, or none of them. A lease that ran out
// is of a process that died; that of the same run, too, is taken only then.
func (l *Letters) take(ctx context.Context, q querier, run, owner string, queues []string, lease time.Duration) error {
	slices.Sort(queues)
	for _, queue := range queues {
		var other string
		var live int
		err := l.d.stmt("SELECT run_id, CASE WHEN until > ", l.d.now, " THEN 1 ELSE 0 END FROM sekali_run_leases WHERE queue = ").addArg(queue).
			add(l.d.forUpdate).one(ctx, q, &other, &live)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			s := l.d.stmt("INSERT INTO sekali_run_leases (queue, run_id, owner, until) VALUES (")
			s.addArg(queue).add(", ").addArg(run).add(", ").addArg(owner).add(", ", l.d.in(s, lease), ")")
			if err := s.exec(ctx, q); err != nil {
				return err // somebody inserted it meanwhile: the next try sees it
			}
			continue
		case err != nil:
			return err
		case live == 1:
			return ours{fmt.Errorf("queue %q, run %s: %w", queue, other, ErrBusy)}
		}
		s := l.d.stmt("UPDATE sekali_run_leases SET run_id = ").addArg(run).add(", owner = ").addArg(owner)
		s.add(", until = ", l.d.in(s, lease), " WHERE queue = ").addArg(queue)
		if err := s.exec(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// in is the database's clock plus a time.
func (d *dialect) in(s *stmt, t time.Duration) string { return d.ago(s, -t) }

// fence proves that the queues are still this process's, and keeps them so until
// the transaction ends.
func (r *runner) fence(ctx context.Context, q querier) error {
	n := 0
	err := r.l.d.stmt("SELECT queue FROM sekali_run_leases WHERE run_id = ").addArg(r.run.ID).add(" AND owner = ").addArg(r.owner).
		add(r.l.d.forUpdate).each(ctx, q, func(scan func(...any) error) error {
		var queue string
		n++
		return scan(&queue)
	})
	if err == nil && n < len(r.run.Queues) {
		err = ours{errLostLease}
	}
	return err
}

// renew keeps the leases until ctx ends; it calls lost when they are gone.
func (r *runner) renew(ctx context.Context, lost func(error)) {
	tick := time.NewTicker(r.config.Lease / 4) //nolint:mnd // three misses are no loss
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := r.l.write(ctx, func(q querier) error {
			if err := r.fence(ctx, q); err != nil {
				return err
			}
			s := r.l.d.stmt("UPDATE sekali_run_leases SET until = ")
			s.add(r.l.d.in(s, r.config.Lease), " WHERE run_id = ").addArg(r.run.ID).add(" AND owner = ").addArg(r.owner)
			err := s.exec(ctx, q)
			return err
		})
		if errors.Is(err, errLostLease) {
			lost(err)
			return
		}
		if err != nil && ctx.Err() == nil {
			r.l.config.Logger.Warn("lease of the redrive could not be renewed", "run", r.run.ID, "err", err)
		}
	}
}

// release gives the leases back.
func (r *runner) release(ctx context.Context, q querier) error {
	err := r.l.d.stmt("DELETE FROM sekali_run_leases WHERE run_id = ").addArg(r.run.ID).add(" AND owner = ").addArg(r.owner).exec(ctx, q)
	return err
}
