package dlq

import (
	"context"
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
	Note Note
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
	// Progress sees the run after each batch, on the goroutine of the redrive, and
	// must not block. Defaults to nil.
	Progress func(Run)
}

// Plan tells what Redrive would do now. It changes nothing, neither here nor on
// the broker.
func (l *Letters) Plan(ctx context.Context, c RedriveConfig) (Plan, error) {
	return Plan{}, errUnbuilt
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
	return Run{}, errUnbuilt
}

// Resume goes on with a run that is paused, or whose process is gone.
// RedriveConfig's Progress and KeepGoing are taken from c, all else is the run's.
func (l *Letters) Resume(ctx context.Context, pub middleware.Confirmed, id string, c ResumeConfig) (Run, error) {
	return Run{}, errUnbuilt
}

// ResumeConfig is what may be said anew when a run goes on. The zero value works.
type ResumeConfig struct {
	// KeepGoing does not pause after 20 letters in a row that came back. Defaults
	// to what the run began with.
	KeepGoing bool
	// Progress sees the run after each batch. Defaults to nil.
	Progress func(Run)
}

// Cancel ends a run: at its next batch if a process works on it. What it sent
// stays sent.
func (l *Letters) Cancel(ctx context.Context, id string, n Note) (Run, error) {
	return Run{}, errUnbuilt
}

// Run returns one run.
func (l *Letters) Run(ctx context.Context, id string) (Run, error) { return Run{}, errUnbuilt }

// Runs lists runs, newest first, at most limit; 0 means 100.
func (l *Letters) Runs(ctx context.Context, limit int) ([]Run, error) { return nil, errUnbuilt }

// Fates tells what became of what a run sent, and resolves the letters whose
// claims prove that they took effect.
func (l *Letters) Fates(ctx context.Context, id string) (Fates, error) { return Fates{}, errUnbuilt }
