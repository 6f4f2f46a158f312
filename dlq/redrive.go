package dlq

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/sekali-mq/sekali/middleware"
)

// RedriveConfig says which letters a redrive takes and what it may do with them.
// The Filter must choose letters; all else has a default.
type RedriveConfig struct {
	// Filter chooses the letters, among those that wait and those that a run left
	// in sending.
	Filter Filter
	// Note of who does it and why. Defaults to none; AsNew, AcceptUnknown and
	// TrustKey need one.
	Note Note `json:"-"`
	// Rate in letters a second; negative: as fast as it goes. Defaults to 200.
	Rate int
	// Cap is how often a letter may be put back before it is parked instead.
	// Defaults to 3.
	Cap int
	// Batch is how many letters share a transaction and are in flight at once.
	// Defaults to 500.
	Batch int
	// AsNew sends letters under a new key, whatever their verdict: their consumer
	// runs them although it may have done so before. Defaults to false.
	AsNew bool
	// AcceptUnknown sends letters of which nothing is proven. Those without a key
	// get one of their own, so that a copy of the redrive is recognised. Defaults to
	// false.
	AcceptUnknown bool
	// TrustKey resolves letters whose claim has no content to compare with.
	// Defaults to false: they stay.
	TrustKey bool
	// KeepGoing does not pause after 20 letters in a row that came back. Defaults
	// to false.
	KeepGoing bool
	// PublishTimeout bounds one publish of a batch. Defaults to 30 s.
	PublishTimeout time.Duration
	// Lease is how long the queues of a process that died stay taken. Defaults to
	// 1 min.
	Lease time.Duration
	// Progress sees the run after each batch, on the goroutine of the redrive, and
	// must not block. Defaults to nil.
	Progress func(Run) `json:"-"`
}

const (
	defaultRate  = 200
	defaultCap   = 3
	defaultBatch = 500
	maxBatch     = 5000
	defaultLease = time.Minute
	minLease     = 100 * time.Millisecond
)

func (c RedriveConfig) withDefaults() (RedriveConfig, error) {
	var errs []error
	c.Rate = cmp.Or(c.Rate, defaultRate)
	c.Cap = cmp.Or(c.Cap, defaultCap)
	c.Batch = cmp.Or(c.Batch, defaultBatch)
	c.PublishTimeout = cmp.Or(c.PublishTimeout, defaultTimeout)
	c.Lease = cmp.Or(c.Lease, defaultLease)
	if c.Cap < 0 || c.Batch < 0 || c.Batch > maxBatch {
		errs = append(errs, fmt.Errorf("Cap is %d, Batch %d: must not be negative, nor Batch over %d", c.Cap, c.Batch, maxBatch))
	}
	if c.PublishTimeout < 0 || c.Lease < minLease {
		errs = append(errs, fmt.Errorf("PublishTimeout is %s, Lease %s: the one must not be negative, the other not below %s", c.PublishTimeout, c.Lease, minLease))
	}
	if !c.Filter.chooses() {
		errs = append(errs, ErrNoFilter)
	}
	for _, s := range c.Filter.States {
		if s != Waiting && s != Sending {
			errs = append(errs, fmt.Errorf("letters that are %s are not redriven: reopen them first", s))
		}
	}
	if c.AsNew || c.AcceptUnknown || c.TrustKey {
		errs = append(errs, checkNote(c.Note))
	}
	errs = append(errs, c.Filter.check())
	return c, errors.Join(errs...)
}

// Redrive puts letters back to the queues they died in, each one confirmed, and
// returns when all that there were at its beginning have been seen. Topics of pub
// are queues: give it rabbit's Publisher.ToQueues, or middleware.Trust of another
// publisher.
//
// Letters that were processed are resolved without sending; those in conflict,
// split or unknown stay. A letter that cannot be published waits again, and the
// run goes on. While the broker is away it waits. Only one run at a time has a
// queue: otherwise ErrBusy. When ctx ends, or the process, the run can be resumed;
// at no time is a letter lost or marked as sent without a confirm. One that was
// published while the process died is sent a second time, under the same key.
//
// ErrPaused: 20 letters in a row came back. The returned Run is valid with any
// error once it has an ID.
func (l *Letters) Redrive(ctx context.Context, pub middleware.Confirmed, c RedriveConfig) (Run, error) {
	const op = "redrive"
	c, err := c.withDefaults()
	if pub == nil {
		err = errors.Join(err, errors.New("publisher is nil: letters must go through one that confirms"))
	}
	if err != nil {
		return Run{}, failed(op, nil, err)
	}
	r := newRunner(l, pub, c)
	r.run = &runRow{Run: Run{ID: runID(), State: Running, Note: c.Note, Config: c}}
	err = l.write(ctx, func(q querier) error {
		if r.run.Bound, r.run.Queues, err = l.snapshot(ctx, q, c.Filter); err != nil {
			return err
		}
		if err := l.take(ctx, q, r.run.ID, r.owner, r.run.Queues, c.Lease); err != nil {
			return err
		}
		return l.insertRun(ctx, q, r.run)
	})
	if err != nil {
		return Run{}, failed(op, nil, err)
	}
	return r.drive(ctx)
}

// runID sorts by time and is never given twice, even where the tables are made
// anew: keys are made of it.
func runID() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return time.Now().UTC().Format("20060102-150405") + "-" + hex.EncodeToString(b[:])
}

// snapshot is what a run will look at: letters up to the newest, and their queues.
func (l *Letters) snapshot(ctx context.Context, q querier, f Filter) (bound int64, queues []string, err error) {
	var newest sql.NullInt64
	if err := l.d.stmt("SELECT MAX(id) FROM sekali_dead_letters").one(ctx, q, &newest); err != nil {
		return 0, nil, err
	}
	queues = []string{}
	err = f.where(l.d.stmt("SELECT DISTINCT queue FROM sekali_dead_letters"), f.redriven()...).add(" AND queue <> ''").each(ctx, q, func(scan func(...any) error) error {
		var queue string
		err := scan(&queue)
		queues = append(queues, queue)
		return err
	})
	return newest.Int64, queues, err
}

// redriven are the states that a redrive takes.
func (f Filter) redriven() []State {
	if len(f.States) > 0 {
		return f.States
	}
	return []State{Waiting, Sending}
}

// ResumeConfig is what may be said anew when a run goes on. The zero value works.
type ResumeConfig struct {
	// KeepGoing does not pause after 20 letters in a row that came back. Defaults
	// to what the run began with.
	KeepGoing bool
	// Progress sees the run after each batch. Defaults to nil.
	Progress func(Run)
}

// Resume goes on with a run that is paused, or whose process is gone.
func (l *Letters) Resume(ctx context.Context, pub middleware.Confirmed, id string, c ResumeConfig) (Run, error) {
	const op = "resume run"
	if pub == nil {
		return Run{}, failed(op, id, errors.New("publisher is nil: letters must go through one that confirms"))
	}
	r := newRunner(l, pub, RedriveConfig{})
	err := l.write(ctx, func(q querier) error {
		runs, err := l.runRows(ctx, q, " WHERE id = ", id, 1)
		switch {
		case err != nil:
			return err
		case len(runs) == 0:
			return ours{ErrNoRun}
		case runs[0].State == Cancelled:
			return ours{ErrCancelled}
		case runs[0].State == Done:
			return ours{errors.New("it is done")}
		}
		r.run = runs[0]
		if err := l.take(ctx, q, id, r.owner, r.run.Queues, r.run.Config.Lease); err != nil {
			return err
		}
		r.run.State, r.run.Reason, r.run.Stale = Running, "", false
		err = l.d.stmt("UPDATE sekali_runs SET state = ").addArg(string(Running)).add(", reason = ").addArg("").
			add(", changed_at = ", l.d.now, " WHERE id = ").addArg(id).exec(ctx, q)
		return err
	})
	if err != nil {
		return Run{}, failed(op, id, err)
	}
	r.config = r.run.Config
	r.config.KeepGoing = r.config.KeepGoing || c.KeepGoing
	r.config.Progress = c.Progress
	return r.drive(ctx)
}
