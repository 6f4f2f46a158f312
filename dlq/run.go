package dlq

import "time"

// RunState is where a run is.
type RunState string

// The states of a run.
const (
	// Running: a process works on it, or died at it: then Stale is set.
	Running RunState = "running"
	// Paused: it stopped by itself, see Run.Reason. Resume goes on.
	Paused RunState = "paused"
	// Done: it has seen every letter up to its bound.
	Done RunState = "done"
	// Cancelled by an operator.
	Cancelled RunState = "cancelled"
)

// Run is one redrive.
type Run struct {
	// ID names it, for Resume and Cancel.
	ID string
	// State it is in.
	State RunState
	// Reason of a pause or a cancellation.
	Reason string
	// Stale: it is running by its state, and no process has its lease any more.
	Stale bool
	// Note of who began it and why.
	Note Note
	// Config it was begun with; funcs are left out.
	Config RedriveConfig
	// Queues that it holds while it runs.
	Queues []string
	// Bound is the newest letter that there was when it began. Later ones are not
	// its business, so that it ends.
	Bound int64
	// Counts of what was done so far.
	Counts Counts
	// BegunAt and ChangedAt by the clock of the letters' database.
	BegunAt, ChangedAt time.Time
}

// Counts are what a redrive did, or would do, with letters.
type Counts struct {
	// Looked at.
	Looked int64
	// Sent: published and confirmed.
	Sent int64
	// Resolved without sending: processed already.
	Resolved int64
	// Parked: they had come back as often as RedriveConfig.Cap.
	Parked int64
	// Stayed by verdict: nothing allows sending them.
	Stayed map[Verdict]int64
	// Copies stayed: they may be second deliveries of letters without a key, and
	// only their ids send them.
	Copies int64
	// Failed: not published, waiting again; the error is in their history.
	Failed int64
	// Unconfirmed: published without an answer. They are sending still, and the
	// next run sends them again.
	Unconfirmed int64
	// Held: sending since an earlier run, to a consumer that would not recognise a
	// second copy: an operator decides.
	Held int64
}

// Plan is what a redrive would do at this moment.
type Plan struct {
	Counts
	// Letters by queue that would be sent.
	Queues map[string]int64
	// Kinds that would be sent, with their number.
	Kinds map[string]int64
	// Why letters stay, with their number: the reasons without keys ("#"), numbers
	// and times ("...").
	Why map[string]int64
	// Older counts those to be sent that are older than work which their consumer
	// has done since: a redrive does not restore the order.
	Older int64
	// OrderUnknown counts those to be sent for which that is not known.
	OrderUnknown int64
}

// Fates are what became of the letters that a run sent.
type Fates struct {
	// Processed: their claims prove it; they are resolved now.
	Processed int64
	// Back: they died again.
	Back int64
	// Open: neither yet, or nothing tells.
	Open int64
	// Other: they were parked, discarded, removed or taken up by another run since.
	Other int64
}
