package dlq

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Park sets letters aside: no redrive takes them. It takes those that wait, and
// those that a run left in sending. It returns how many it changed. Who and why
// are required and kept in each letter's history.
func (l *Letters) Park(ctx context.Context, f Filter, n Note) (int64, error) {
	return l.act(ctx, act{op: "park letters", what: "parked", to: Parked, from: []State{Waiting, Sending}}, f, n)
}

// Reopen lets letters wait again that were parked, discarded, resolved, sent, or
// left in sending; by default only the parked and discarded ones, the others must
// be named in Filter.States. The cap on redrives counts anew. A letter that was
// merged into another one stays.
func (l *Letters) Reopen(ctx context.Context, f Filter, n Note) (int64, error) {
	a := act{op: "reopen letters", what: "reopened", to: Waiting, from: []State{Parked, Discarded}, may: []State{Parked, Discarded, Resolved, Sent, Sending}}
	return l.act(ctx, a, f, n)
}

// Discard gives letters up: those that wait, are parked, or were left in sending.
// They stay readable, and can be reopened, until Retain removes them.
func (l *Letters) Discard(ctx context.Context, f Filter, n Note) (int64, error) {
	return l.act(ctx, act{op: "discard letters", what: "discarded", to: Discarded, from: []State{Waiting, Parked, Sending}}, f, n)
}

// act is one of the above.
type act struct {
	op, what string
	to       State
	// from these states, unless the filter names others of may.
	from, may []State
}

func checkNote(n Note) error {
	if strings.TrimSpace(n.Who) == "" || strings.TrimSpace(n.Why) == "" {
		return ErrNoNote
	}
	return nil
}

func (l *Letters) act(ctx context.Context, a act, f Filter, n Note) (changed int64, err error) {
	if !f.chooses() {
		return 0, failed(a.op, nil, ErrNoFilter)
	}
	if err := checkNote(n); err != nil {
		return 0, failed(a.op, nil, err)
	}
	may := a.may
	if may == nil {
		may = a.from
	}
	for _, s := range f.States {
		if !slices.Contains(may, s) {
			return 0, failed(a.op, nil, fmt.Errorf("letters that are %s cannot be %s: it takes %v", s, a.what, may))
		}
	}
	if len(f.States) == 0 {
		f.States = a.from
	}
	var batch []*row
	flush := func() error {
		done, err := l.actOn(ctx, a, batch, n)
		changed += done
		batch = batch[:0]
		return err
	}
	for r, err := range l.rows(ctx, f, OldestFirst, 0, f.part()) {
		if err != nil {
			return changed, failed(a.op, nil, err)
		}
		if batch = append(batch, r); len(batch) == pageSize {
			if err := flush(); err != nil {
				return changed, failed(a.op, nil, err)
			}
		}
	}
	return changed, failed(a.op, nil, flush())
}

// actOn changes those of a batch that are still as they were read.
func (l *Letters) actOn(ctx context.Context, a act, batch []*row, n Note) (changed int64, err error) {
	if len(batch) == 0 {
		return 0, nil
	}
	err = l.write(ctx, func(q querier) error {
		changed = 0
		now, err := l.lock(ctx, q, batch)
		if err != nil {
			return err
		}
		// After the rows: a run takes its leases before it takes rows.
		live, err := l.busy(ctx, q, batch)
		if err != nil {
			return err
		}
		var ids []int64
		var events []Event
		for _, r := range batch {
			is := now[r.ID]
			switch {
			case is == nil || is.State != r.State || is.sendN != r.sendN || is.MergedInto != 0:
				continue
			case is.State == Sending && live[is.Run]:
				return ours{fmt.Errorf("letter %d is being sent by run %s: wait for it, or cancel it", r.ID, is.Run)}
			}
			e := Event{Letter: r.ID, What: a.what, State: a.to, Who: n.Who, Why: n.Why}
			if a.to == Waiting {
				merged, err := l.reopen(ctx, q, is)
				if err != nil {
					return err
				}
				if merged != 0 {
					e.What, e.State, e.Text = "merged", Resolved, fmt.Sprintf("letter %d of the same claim waits", merged)
				}
			} else {
				ids = append(ids, r.ID)
			}
			events = append(events, e)
			changed++
		}
		if len(ids) > 0 {
			if err := l.close(ctx, q, a.to, ids, ""); err != nil {
				return err
			}
		}
		return l.log(ctx, q, events...)
	})
	return changed, err
}

// close sets rows to a state in which they no longer wait; run is whose doing it
// is, "" leaves that as it is.
func (l *Letters) close(ctx context.Context, q querier, to State, ids []int64, run string) error {
	s := l.d.stmt("UPDATE sekali_dead_letters SET state = ").addArg(string(to))
	if run != "" {
		s.add(", run_id = ").addArg(run)
	}
	s.add(", identity = ", keepContent, ", changed_at = ", l.d.now, " WHERE id IN ")
	return s.add(list(s, ids)).exec(ctx, q)
}

// keepContent is the identity of a letter that no longer waits: that of a letter
// without a key stays, so that copies find it.
const keepContent = "CASE WHEN message_key = '' THEN identity ELSE NULL END"

// reopen lets one letter wait; if another one of its claim waits already, it is
// merged into that.
func (l *Letters) reopen(ctx context.Context, q querier, r *row) (merged int64, err error) {
	return l.letWait(ctx, q, r, identity(r.Queue, r.Consumer, r.Key, r.Fingerprint), "spared = redrives")
}

// letWait sets a row to waiting, with what else is set, under its identity, if it
// has one; if another one of its claim waits already, it is merged into that.
func (l *Letters) letWait(ctx context.Context, q querier, r *row, id, set string) (merged int64, err error) {
	s := l.d.stmt("UPDATE sekali_dead_letters SET state = ").addArg(string(Waiting)).add(", ", set, ", changed_at = ", l.d.now)
	if id != "" {
		waiting, err := l.lockWaiting(ctx, q, id)
		if err != nil {
			return 0, err
		}
		if waiting != 0 && waiting != r.ID {
			return waiting, l.mergeInto(ctx, q, r.ID, waiting)
		}
		s.add(", identity = ").addArg(id)
	}
	return 0, s.add(" WHERE id = ").addArg(r.ID).exec(ctx, q)
}

func (l *Letters) mergeInto(ctx context.Context, q querier, id, into int64) error {
	return l.d.stmt("UPDATE sekali_dead_letters SET state = ").addArg(string(Resolved)).add(", identity = NULL, merged_into = ").addArg(into).
		add(", changed_at = ", l.d.now, " WHERE id = ").addArg(id).exec(ctx, q)
}

// lock reads rows again, locked.
func (l *Letters) lock(ctx context.Context, q querier, batch []*row) (map[int64]*row, error) {
	ids := make([]int64, len(batch))
	for i, r := range batch {
		ids[i] = r.ID
	}
	s := l.d.selectRows(plainRow).add(" WHERE id IN ")
	rows, err := s.add(list(s, ids), " ORDER BY id", l.d.forUpdate).rows(ctx, q, plainRow)
	if err != nil {
		return nil, err
	}
	now := make(map[int64]*row, len(rows))
	for _, r := range rows {
		now[r.ID] = r
	}
	return now, nil
}

// busy tells which runs of the rows a process works on.
func (l *Letters) busy(ctx context.Context, q querier, batch []*row) (map[string]bool, error) {
	runs := make(map[string]bool)
	for _, r := range batch {
		if r.State == Sending {
			runs[r.Run] = false
		}
	}
	if len(runs) == 0 {
		return runs, nil
	}
	err := l.d.stmt("SELECT DISTINCT run_id FROM sekali_run_leases WHERE until > ", l.d.now).each(ctx, q, func(scan func(...any) error) error {
		var id string
		if err := scan(&id); err != nil {
			return err
		}
		runs[id] = true
		return nil
	})
	return runs, err
}
