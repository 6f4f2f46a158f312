package dlq

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
)

// Run returns one run.
func (l *Letters) Run(ctx context.Context, id string) (Run, error) {
	var runs []*runRow
	err := l.read(ctx, func(q querier) (err error) {
		runs, err = l.runRows(ctx, q, " WHERE id = ", id, 1)
		return err
	})
	if err == nil && len(runs) == 0 {
		err = ErrNoRun
	}
	if err != nil {
		return Run{}, failed("read run", id, err)
	}
	return runs[0].Run, nil
}

// Runs lists runs, newest first, at most limit; 0 means 100.
func (l *Letters) Runs(ctx context.Context, limit int) (out []Run, err error) {
	if limit <= 0 {
		limit = listDefault
	}
	err = l.read(ctx, func(q querier) error {
		runs, err := l.runRows(ctx, q, "", "", limit)
		out = nil
		for _, r := range runs {
			out = append(out, r.Run)
		}
		return err
	})
	return out, failed("list runs", nil, err)
}

// Cancel ends a run: at its next batch if a process works on it. What it sent
// stays sent.
func (l *Letters) Cancel(ctx context.Context, id string, n Note) (Run, error) {
	const op = "cancel run"
	if err := checkNote(n); err != nil {
		return Run{}, failed(op, id, err)
	}
	err := l.write(ctx, func(q querier) error {
		runs, err := l.runRows(ctx, q, " WHERE id = ", id, 1)
		switch {
		case err != nil:
			return err
		case len(runs) == 0:
			return ours{ErrNoRun}
		case runs[0].State != Running && runs[0].State != Paused:
			return ours{fmt.Errorf("it is %s already", runs[0].State)}
		}
		s := l.d.stmt("UPDATE sekali_runs SET state = ").addArg(string(Cancelled)).add(", reason = ").addArg(clean("cancelled by "+n.Who+": "+n.Why, maxText)).
			add(", changed_at = ", l.d.now, " WHERE id = ").addArg(id)
		if err := s.exec(ctx, q); err != nil {
			return err
		}
		err = l.d.stmt("DELETE FROM sekali_run_leases WHERE run_id = ").addArg(id).exec(ctx, q)
		return err
	})
	if err != nil {
		return Run{}, failed(op, id, err)
	}
	return l.Run(ctx, id)
}

// runRow is a run with how far it is.
type runRow struct {
	Run
	last int64 // letters up to this one are done
}

func (l *Letters) runRows(ctx context.Context, q querier, where, arg string, limit int) (runs []*runRow, err error) {
	t := l.d.readTime
	s := l.d.stmt("SELECT id, state, reason, who, why, config, counts, queues, bound, last_id, ", t("begun_at"), ", ", t("changed_at"),
		", CASE WHEN state = 'running' AND NOT EXISTS (SELECT 1 FROM sekali_run_leases l WHERE l.run_id = sekali_runs.id AND l.until > ", l.d.now, ") THEN 1 ELSE 0 END FROM sekali_runs")
	if where != "" {
		s.add(where).addArg(arg)
	}
	s.add(" ORDER BY begun_at DESC, id DESC", fmt.Sprintf(" LIMIT %d", limit))
	err = s.each(ctx, q, func(scan func(...any) error) error {
		var r runRow
		var config, counts, queues []byte
		var begun, changed sql.NullInt64
		var stale int64
		if err := scan(&r.ID, &r.State, &r.Reason, &r.Note.Who, &r.Note.Why, &config, &counts, &queues, &r.Bound, &r.last, &begun, &changed, &stale); err != nil {
			return err
		}
		r.BegunAt, r.ChangedAt, r.Stale = timeOf(begun), timeOf(changed), stale != 0
		if err := errors.Join(json.Unmarshal(config, &r.Config), json.Unmarshal(counts, &r.Counts), json.Unmarshal(queues, &r.Queues)); err != nil { //nolint:musttag // written and read by this package only
			return ours{fmt.Errorf("run %s is damaged: %w", r.ID, err)}
		}
		r.Config.Note = r.Note
		runs = append(runs, &r)
		return nil
	})
	return runs, err
}

// insertRun makes the row of a new run.
func (l *Letters) insertRun(ctx context.Context, q querier, r *runRow) error {
	config, err := json.Marshal(r.Config) //nolint:musttag // written and read by this package only
	if err != nil {
		return err
	}
	counts, err := json.Marshal(r.Counts) //nolint:musttag // written and read by this package only
	if err != nil {
		return err
	}
	queues, err := json.Marshal(r.Queues)
	if err != nil {
		return err
	}
	s := l.d.stmt("INSERT INTO sekali_runs (id, state, reason, who, why, config, counts, queues, bound, last_id, begun_at, changed_at) VALUES (")
	for _, v := range []any{r.ID, string(r.State), r.Reason, clean(r.Note.Who, maxText), clean(r.Note.Why, maxText), string(config), string(counts), string(queues), r.Bound, r.last} {
		s.addArg(v).add(", ")
	}
	err = s.add(l.d.now, ", ", l.d.now, ")").exec(ctx, q)
	return err
}

// save keeps how far the run is, as long as it is running.
func (r *runner) save(ctx context.Context, q querier, state RunState, reason string) error {
	counts, err := json.Marshal(r.run.Counts) //nolint:musttag // written and read by this package only
	if err != nil {
		return ours{err}
	}
	s := r.l.d.stmt("UPDATE sekali_runs SET state = ").addArg(string(state)).add(", reason = ").addArg(clean(reason, maxText)).
		add(", counts = ").addArg(string(counts)).add(", last_id = ").addArg(r.run.last).add(", changed_at = ", r.l.d.now, " WHERE id = ").addArg(r.run.ID).
		add(" AND state = ").addArg(string(Running))
	err = s.exec(ctx, q)
	return err
}
