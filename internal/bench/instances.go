package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// longer is a run on hot rows: deadlocks are rare but last a second each, which a short run would show as too much or not at
// all.
const longer = 5

// instances runs several processes of a system on one queue, on few rows and on many.
func (b *bench) instances(ctx context.Context) error {
	list := b.chosen("P3", "S2", "S4")
	type variant struct {
		s     system
		rows  string
		count int
	}
	var variants []variant
	for _, rows := range []string{"hot", "wide"} {
		for _, s := range list {
			for _, count := range b.processes {
				variants = append(variants, variant{s, rows, count})
			}
		}
	}
	for round := range b.rounds {
		for _, i := range rand.Perm(len(variants)) {
			v := variants[i]
			messages := b.share(v.s)
			if v.rows == "hot" {
				messages *= longer
			}
			j := b.job(v.s, messages, uint64(round))
			if v.rows == "hot" {
				j.rows = hot
			}
			name := fmt.Sprintf("instances/%s/%s/%d", v.rows, v.s.name, v.count)
			if err := b.together(ctx, v.s, j, v.count, name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			b.progressf("instances, round %d of %d: %d of %s, %s rows: %s msg/s", round+1, b.rounds, v.count, v.s.name, v.rows, b.report.figure("%.0f", name, "msg/s"))
		}
	}
	var rows [][]string
	for _, v := range variants {
		name := fmt.Sprintf("instances/%s/%s/%d", v.rows, v.s.name, v.count)
		one := fmt.Sprintf("instances/%s/%s/1/msg/s", v.rows, v.s.name)
		row := []string{v.s.name, v.rows, strconv.Itoa(v.count), b.report.figure("%.0f", name, "msg/s"), b.report.spread("%.0f", name, "msg/s"), b.report.ratioText(name+"/msg/s", one)}
		for _, figure := range []string{"deadlocks", "undone", "failed", "nacked", "letters"} {
			row = append(row, fmt.Sprintf("%.0f", sum(b.report.Figures[name+"/"+figure])))
		}
		rows = append(rows, row)
	}
	b.report.table(fmt.Sprintf("Instances: processes on one queue; hot are %d rows, wide are %d", hot, b.wide),
		[]string{"", "rows", "processes", "msg/s of all", "min-max", "to one", "deadlocks", "undone", "failed", "nacked", "letters"}, rows,
		"deadlocks and all behind them: sum of the rounds. deadlocks: that PostgreSQL resolved; undone: runs that it undid, and that were run again;",
		"failed: other errors; nacked: messages that went back to the queue")
	return nil
}

func sum(of []float64) (s float64) {
	for _, v := range of {
		s += v
	}
	return s
}

// together has so many processes empty the queue.
func (b *bench) together(ctx context.Context, s system, j *job, count int, name string) error {
	if err := b.prepare(ctx, s, j); err != nil {
		return err
	}
	const deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
	before, err := b.world.count(ctx, deadlocks)
	if err != nil {
		return err
	}
	all, err := runInstances(ctx, j, count)
	if err != nil {
		return err
	}
	after, err := b.world.count(ctx, deadlocks) // the sessions are gone: all of theirs is in
	if err != nil {
		return err
	}
	letters, err := b.world.depth(b.world.letterQueue())
	if err != nil {
		return err
	}
	var t news // of all
	for _, n := range all {
		t.Settled, t.Undone, t.Failed, t.Nacked = t.Settled+n.Settled, t.Undone+n.Undone, t.Failed+n.Failed, t.Nacked+n.Nacked
		if n.First > 0 && (t.First == 0 || n.First < t.First) {
			t.First = n.First
		}
		t.Last = max(t.Last, n.Last)
		if n.Why != "" {
			b.progressf("%s: first failure: %s", name, n.Why)
		}
	}
	for figure, v := range map[string]float64{
		"msg/s": rate(t.Settled, time.Duration(t.Last-t.First)), "deadlocks": float64(after - before), "undone": float64(t.Undone),
		"failed": float64(t.Failed), "nacked": float64(t.Nacked), "letters": float64(letters),
	} {
		b.report.add(v, name, figure)
	}
	j.meter.settled.Store(t.Settled)
	j.letters = int(letters)
	return b.books(ctx, s, j)
}

// instance is a process of this program.
type instance struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
}

func startInstance(ctx context.Context, spec string) (*instance, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, path)
	c.Env = append(os.Environ(), workerVariable+"="+spec)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &instance{c, in, json.NewDecoder(out)}, c.Start()
}

// runInstances starts them, lets them go together, and ends them when all messages are settled.
func runInstances(ctx context.Context, j *job, count int) (last []news, err error) {
	spec, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type line struct {
		from int
		news news
		err  error
	}
	lines := make(chan line, count)
	var list []*instance
	defer func() {
		cancel() // kills those that still run
		for _, i := range list {
			err = errors.Join(err, i.command.Wait())
		}
	}()
	for range count {
		i, err := startInstance(ctx, string(spec))
		if err != nil {
			return nil, err
		}
		list = append(list, i)
	}
	for _, i := range list { // ready
		var n news
		if err := i.out.Decode(&n); err != nil {
			return nil, fmt.Errorf("start an instance: %w", err)
		}
	}
	for from, i := range list {
		if _, err := io.WriteString(i.in, "go\n"); err != nil {
			return nil, err
		}
		go func() {
			for {
				var n news
				err := i.out.Decode(&n)
				select {
				case lines <- line{from, n, err}:
				case <-ctx.Done():
					return
				}
				if err != nil || n.End {
					return
				}
			}
		}()
	}
	last = make([]news, count)
	ending, seen, since := false, int64(0), time.Now()
	for ends := 0; ends < count; {
		l := <-lines
		if l.err != nil {
			return nil, fmt.Errorf("an instance died: %w", l.err)
		}
		last[l.from] = l.news
		if l.news.End {
			ends++
		}
		now := int64(0)
		for _, n := range last {
			now += n.Settled
		}
		if now > seen {
			seen, since = now, time.Now()
		}
		if !ending && now >= int64(j.messages) {
			ending = true
			for _, i := range list {
				err = errors.Join(err, i.in.Close())
			}
		}
		if time.Since(since) > stall {
			return nil, fmt.Errorf("nothing settled for %s, %d of %d are; the first failure: %s", stall, now, j.messages, l.news.Why)
		}
	}
	// They have said their last word: wait before the kill above.
	for _, i := range list {
		err = errors.Join(err, i.command.Wait())
	}
	list = nil
	return last, err
}
