package dlq

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// item is one letter on its way.
type item struct {
	row *row
	decision
}

// batch takes the next letters of the run: looks, judges, marks, sends, marks.
// more is false at the end of the pass.
func (r *runner) batch(ctx context.Context) (more bool, err error) {
	size := r.size()
	if size <= 0 {
		return false, nil
	}
	page, err := r.page(ctx, size)
	if err != nil || len(page) == 0 {
		return false, err
	}
	full := len(page) == size
	if n := atOnce(page); n < len(page) {
		page, full = page[:n], true
	}
	last := page[len(page)-1].ID
	if page, err = r.matching(ctx, page); err != nil {
		return false, err
	}
	if limit := r.config.Filter.Limit; limit > 0 && !r.orphans && int64(len(page)) > int64(limit)-r.run.Counts.Looked {
		page = page[:int64(limit)-r.run.Counts.Looked]
		last, full = page[len(page)-1].ID, false
	}
	js, err := r.l.judge(ctx, page)
	if err != nil {
		return false, err
	}
	was, wasLast := r.run.Counts.clone(), r.run.last
	var toSend, others []*item
	for i, row := range page {
		it := &item{row: row, decision: r.config.decide(row, js[i], r.run.ID)}
		r.run.Counts.add(it.decision)
		if r.orphans {
			r.run.Counts.Looked-- // it was looked at before
		}
		switch it.step {
		case send:
			toSend = append(toSend, it)
		case resolve, park:
			others = append(others, it)
		case stay, stayCopy, stayHeld:
		}
	}
	r.after = last
	if !r.orphans {
		r.run.last = last
	}
	if toSend, err = r.begin(ctx, others, toSend); err != nil {
		r.run.Counts, r.run.last = was, wasLast
		return false, err
	}
	if err := r.sendAll(ctx, toSend); err != nil {
		return false, err
	}
	// Not with ctx: what was done is to be known.
	kctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	return full, r.l.write(kctx, func(q querier) error { return r.save(kctx, q, Running, "") })
}

// atOnce is how many rows of a page have bodies that fit into memory.
func atOnce(page []*row) int {
	n, bytes := 1, page[0].Size
	for n < len(page) && bytes+page[n].Size <= maxBytes {
		bytes += page[n].Size
		n++
	}
	return n
}

// begin resolves, parks and marks the letters of a batch, and keeps that all of it
// was looked at, in one transaction: whoever resumes the run counts nothing twice
// and takes no more than its limit. It returns those to be published.
func (r *runner) begin(ctx context.Context, others, toSend []*item) (marked []*item, err error) {
	err = r.l.write(ctx, func(q querier) error {
		now, err := r.lock(ctx, q, slices.Concat(others, toSend))
		if err != nil {
			return err
		}
		if err := r.settle(ctx, q, others, now); err != nil {
			return err
		}
		if marked, err = r.mark(ctx, q, toSend, now); err != nil {
			return err
		}
		return r.save(ctx, q, Running, "")
	})
	return marked, err
}

// page reads the next rows of the pass, with all but their bodies.
func (r *runner) page(ctx context.Context, size int) (page []*row, err error) {
	err = r.l.read(ctx, func(q querier) (err error) {
		f := r.config.Filter
		if r.orphans {
			f = Filter{} // it chose them, whatever they are now
		}
		s := f.where(r.l.d.selectRows(withEnvelope), f.redriven()...)
		s.add(" AND id > ").addArg(r.after)
		s.add(" AND id <= ").addArg(r.run.Bound)
		// Letters of other queues may have come back meanwhile, and be another run's.
		s.add(" AND queue IN ", list(s, append([]string{""}, r.run.Queues...)))
		if r.orphans {
			s.add(" AND state = 'sending' AND run_id = ").addArg(r.run.ID)
		} else {
			// What this run had in hand is done, wherever it is now.
			s.add(" AND run_id <> ").addArg(r.run.ID)
		}
		page, err = s.add(fmt.Sprintf(" ORDER BY id LIMIT %d", size)).rows(ctx, q, withEnvelope)
		return err
	})
	return page, err
}

// matching is for filters that the database does not know. Of verdicts the dry run
// and the run think alike, since both look now.
func (r *runner) matching(ctx context.Context, page []*row) ([]*row, error) {
	if r.orphans {
		return page, nil
	}
	return r.l.matching(ctx, r.config.Filter, page)
}

// settle resolves and parks.
func (r *runner) settle(ctx context.Context, q querier, items []*item, now map[int64]*row) error {
	ids := map[step][]int64{}
	var events []Event
	for _, it := range items {
		if !it.same(now) {
			continue
		}
		ids[it.step] = append(ids[it.step], it.row.ID)
		e := Event{Letter: it.row.ID, What: "resolved", State: Resolved, Run: r.run.ID, Text: it.why}
		if it.step == park {
			e.What, e.State = "parked", Parked
		}
		e.Who, e.Why = r.run.Note.Who, r.run.Note.Why
		events = append(events, e)
	}
	for step, state := range map[step]State{resolve: Resolved, park: Parked} {
		if len(ids[step]) == 0 {
			continue
		}
		if err := r.l.close(ctx, q, state, ids[step], r.run.ID); err != nil {
			return err
		}
	}
	return r.l.log(ctx, q, events...)
}

// lock proves the lease and locks the rows of items. It reads what same compares.
func (r *runner) lock(ctx context.Context, q querier, items []*item) (map[int64]*row, error) {
	if err := r.fence(ctx, q); err != nil || len(items) == 0 {
		return nil, err
	}
	ids := make([]int64, len(items))
	for i, it := range items {
		ids[i] = it.row.ID
	}
	now := make(map[int64]*row, len(items))
	s := r.l.d.stmt("SELECT id, state, send_n, redrives, run_id FROM sekali_dead_letters WHERE id IN ")
	err := s.add(list(s, ids), " ORDER BY id", r.l.d.forUpdate).each(ctx, q, func(scan func(...any) error) error {
		var is row
		if err := scan(&is.ID, &is.State, &is.sendN, &is.Redrives, &is.Run); err != nil {
			return err
		}
		now[is.ID] = &is
		return nil
	})
	return now, err
}

// same reports whether the row is as it was judged.
func (it *item) same(now map[int64]*row) bool {
	is := now[it.row.ID]
	return is != nil && is.State == it.row.State && is.sendN == it.row.sendN && is.Redrives == it.row.Redrives && is.Run == it.row.Run
}

// mark sets the rows to sending, before anything is published. It returns those
// that are.
func (r *runner) mark(ctx context.Context, q querier, items []*item, now map[int64]*row) (marked []*item, err error) {
	type group struct {
		n       int64
		key     string
		once    bool
		verdict Verdict
	}
	groups := make(map[group][]int64)
	for _, it := range items {
		if !it.same(now) {
			continue
		}
		marked = append(marked, it)
		g := group{it.n, it.key, it.once, it.verdict}
		groups[g] = append(groups[g], it.row.ID)
	}
	for g, ids := range groups {
		s := r.l.d.stmt("UPDATE sekali_dead_letters SET state = 'sending', run_id = ").addArg(r.run.ID).add(", send_n = ").addArg(g.n).
			add(", sent_key = ").addArg(g.key).add(", once = ").addArg(flag(g.once)).add(", identity = ", keepContent, ", changed_at = ", r.l.d.now, " WHERE id IN ")
		if err := s.add(list(s, ids)).exec(ctx, q); err != nil {
			return nil, err
		}
		e := Event{What: "sending", State: Sending, Run: r.run.ID, N: int(g.n), Who: r.run.Note.Who, Why: r.run.Note.Why, Text: "verdict: " + string(g.verdict)}
		if g.key != "" {
			e.Text += ", under key " + g.key
		}
		if err := r.l.logAll(ctx, q, ids, e); err != nil {
			return nil, err
		}
	}
	return marked, nil
}

// bodies reads what is to be published.
func (r *runner) bodies(ctx context.Context, items []*item) error {
	ids := make([]int64, len(items))
	by := make(map[int64]*row, len(items))
	for i, it := range items {
		ids[i], by[it.row.ID] = it.row.ID, it.row
	}
	return r.l.read(ctx, func(q querier) error {
		s := r.l.d.stmt("SELECT id, body FROM sekali_dead_letters WHERE id IN ")
		return s.add(list(s, ids)).each(ctx, q, func(scan func(...any) error) error {
			var id int64
			var body []byte
			if err := scan(&id, &body); err != nil {
				return err
			}
			by[id].body = body
			return nil
		})
	})
}

// confirmed marks what the broker has: only where it is still sending with that
// number. What died again meanwhile waits, and stays so.
func (r *runner) confirmed(ctx context.Context, items []*item) error {
	if len(items) == 0 {
		return nil
	}
	byN := make(map[int64][]int64)
	for _, it := range items {
		byN[it.n] = append(byN[it.n], it.row.ID)
	}
	// Not with ctx: the broker has it, whoever has stopped waiting.
	mctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.PublishTimeout)
	defer cancel()
	before := r.run.Counts.Sent
	err := r.l.write(mctx, func(q querier) error {
		for n, ids := range byN {
			s := r.l.d.stmt("UPDATE sekali_dead_letters SET state = 'sent', redrives = ").addArg(n).add(", changed_at = ", r.l.d.now,
				" WHERE state = 'sending' AND run_id = ").addArg(r.run.ID).add(" AND send_n = ").addArg(n).add(" AND id IN ")
			if err := s.add(list(s, ids)).exec(mctx, q); err != nil {
				return err
			}
			if err := r.l.logAll(mctx, q, ids, Event{What: "sent", State: Sent, Run: r.run.ID, N: int(n)}); err != nil {
				return err
			}
		}
		r.run.Counts.Sent = before + int64(len(items))
		return r.save(mctx, q, Running, "")
	})
	if err != nil {
		r.run.Counts.Sent = before
		return fmt.Errorf("mark %d letters as sent, which the broker has confirmed (they stay in sending): %w", len(items), err)
	}
	r.sent += int64(len(items))
	return nil
}

// failedOnes lets letters wait again that are surely not in the queue.
func (r *runner) failedOnes(ctx context.Context, items []*item, errs map[*item]error) error {
	if len(items) == 0 {
		return nil
	}
	fctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.PublishTimeout)
	defer cancel()
	err := r.l.write(fctx, func(q querier) error {
		now, err := r.lock(fctx, q, items)
		if err != nil {
			return err
		}
		for _, it := range items {
			is := now[it.row.ID]
			if is == nil || is.State != Sending || is.sendN != it.n || is.Run != r.run.ID {
				continue
			}
			merged, err := r.l.unsend(fctx, q, it.row)
			if err != nil {
				return err
			}
			e := Event{Letter: is.ID, What: "failed", State: Waiting, Run: r.run.ID, N: int(it.n), Text: short(errs[it])}
			if merged != 0 {
				e.State, e.Text = Resolved, fmt.Sprintf("merged into letter %d of the same claim, which waits: %s", merged, e.Text)
			}
			if err := r.l.log(fctx, q, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("let %d letters wait again: %w", len(items), err)
	}
	r.run.Counts.Failed += int64(len(items))
	return nil
}

// unsend lets a letter wait again.
func (l *Letters) unsend(ctx context.Context, q querier, r *row) (merged int64, err error) {
	id := ""
	if r.CopyOf == 0 {
		id = identity(r.Queue, r.Consumer, r.Key, r.Fingerprint)
	}
	return l.letWait(ctx, q, r, id, "sent_key = '', once = 0")
}

// checkEvery bounds how often the letters that came back are looked at.
const checkEvery = 300 * time.Millisecond
