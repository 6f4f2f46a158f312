package dlq

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

const (
	// inARow letters that come back stop a run.
	inARow = 20
	// between bounds how many others of the run are looked at among them.
	between = 500
)

// comeBack pauses the run when the last of its letters that have a fate all came
// back: the next thousand would, too.
func (r *runner) comeBack(ctx context.Context) error {
	if r.config.KeepGoing || time.Since(r.checked) < checkEvery {
		return nil
	}
	r.checked = time.Now()
	broken, err := r.broken(ctx)
	if err != nil {
		return err
	}
	if broken {
		return fmt.Errorf("%d letters in a row came back: %w", inARow, ErrPaused)
	}
	return nil
}

func (r *runner) broken(ctx context.Context) (bool, error) {
	var back, sent []*row
	err := r.l.read(ctx, func(q querier) (err error) {
		// Those that were not published wait, too, with fewer redrives than the number.
		s := r.l.d.selectRows(plainRow).add(" WHERE run_id = ").addArg(r.run.ID).add(" AND state = 'waiting' AND send_n > 0 AND redrives >= send_n")
		if back, err = s.add(fmt.Sprintf(" ORDER BY id DESC LIMIT %d", inARow)).rows(ctx, q, plainRow); err != nil || len(back) < inARow {
			return err
		}
		s = r.l.d.selectRows(plainRow).add(" WHERE run_id = ").addArg(r.run.ID).add(" AND state = 'sent' AND id > ").addArg(back[len(back)-1].ID)
		s.add(" AND id < ").addArg(back[0].ID)
		sent, err = s.add(fmt.Sprintf(" ORDER BY id DESC LIMIT %d", between)).rows(ctx, q, plainRow)
		return err
	})
	if err != nil || len(back) < inARow {
		return false, err
	}
	js, err := r.l.judge(ctx, sent)
	if err != nil {
		return false, err
	}
	for _, j := range js {
		if j.Verdict == Processed {
			return false, nil // one in between got through
		}
	}
	return true, nil
}

// Fates tells what became of what a run sent, and resolves the letters whose
// claims prove that they took effect.
func (l *Letters) Fates(ctx context.Context, id string) (f Fates, err error) {
	const op = "fates of run"
	run, err := l.Run(ctx, id)
	if err != nil {
		return f, err
	}
	var after, still int64 // still: sent, and not taken up by another run
	for {
		var page []*row
		err := l.read(ctx, func(q querier) (err error) {
			s := l.d.selectRows(plainRow).add(" WHERE run_id = ").addArg(id).add(" AND send_n > 0 AND id > ").addArg(after)
			// Not those that this run resolved or parked, and an earlier one sent.
			s.add(" AND EXISTS (SELECT 1 FROM sekali_dead_letter_events e WHERE e.letter_id = sekali_dead_letters.id AND e.what = 'sending' AND e.run_id = ").addArg(id).add(")")
			page, err = s.add(fmt.Sprintf(" ORDER BY id LIMIT %d", pageSize)).rows(ctx, q, plainRow)
			return err
		})
		if err != nil {
			return f, failed(op, id, err)
		}
		if len(page) == 0 {
			f.Other += max(0, run.Counts.Sent-still)
			return f, nil
		}
		after = page[len(page)-1].ID
		for _, r := range page {
			if r.State != Sending {
				still++
			}
		}
		if err := l.fates(ctx, id, page, &f); err != nil {
			return f, failed(op, id, err)
		}
	}
}

func (l *Letters) fates(ctx context.Context, run string, page []*row, f *Fates) error {
	var sent []*row
	for _, r := range page {
		switch {
		case r.State == Sent:
			sent = append(sent, r)
		case r.State == Waiting && int64(r.Redrives) >= r.sendN:
			f.Back++
		case r.State == Resolved && r.MergedInto != 0:
			f.Back++
		case r.State == Resolved:
			f.Processed++
		case r.State == Sending:
			f.Open++
		default:
			f.Other++
		}
	}
	if len(sent) == 0 {
		return nil
	}
	js, err := l.judge(ctx, sent)
	if err != nil {
		return err
	}
	var proven []*row
	for i, r := range sent {
		if js[i].Verdict == Processed && js[i].Compared {
			proven = append(proven, r)
		} else {
			f.Open++
		}
	}
	f.Processed += int64(len(proven))
	return l.resolveSent(ctx, run, proven)
}

// resolveProven looks at all letters that were sent.
func (l *Letters) resolveProven(ctx context.Context) error {
	var after int64
	for {
		page, err := l.page(ctx, Filter{States: []State{Sent}}, OldestFirst, after, plainRow)
		if err != nil || len(page) == 0 {
			return err
		}
		after = page[len(page)-1].ID
		if err := l.fates(ctx, "", page, &Fates{}); err != nil {
			return err
		}
	}
}

// resolveSent resolves letters whose claims prove that they took effect.
func (l *Letters) resolveSent(ctx context.Context, run string, rows []*row) error {
	if len(rows) == 0 {
		return nil
	}
	return l.write(ctx, func(q querier) error {
		now, err := l.lock(ctx, q, rows)
		if err != nil {
			return err
		}
		var ids []int64
		var events []Event
		for _, r := range rows {
			if is := now[r.ID]; is == nil || is.State != Sent || is.sendN != r.sendN {
				continue
			}
			ids = append(ids, r.ID)
			events = append(events, Event{Letter: r.ID, What: "resolved", State: Resolved, Run: cmp.Or(run, r.Run), Text: "its claim is committed"})
		}
		if len(ids) == 0 {
			return nil
		}
		if err := l.close(ctx, q, Resolved, ids, ""); err != nil {
			return err
		}
		return l.log(ctx, q, events...)
	})
}
