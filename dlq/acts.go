package dlq

import "context"

// Park sets letters aside: no redrive takes them. It takes those that wait, and
// those that a run left in sending. It returns how many it changed. Who and why
// are required and kept in each letter's history.
func (l *Letters) Park(ctx context.Context, f Filter, n Note) (int64, error) { return 0, errUnbuilt }

// Reopen lets letters wait again that were parked, discarded, resolved without a
// merge, sent, or left in sending; by default only the parked and discarded
// ones, the others must be named in Filter.States. The cap on redrives counts
// anew.
func (l *Letters) Reopen(ctx context.Context, f Filter, n Note) (int64, error) { return 0, errUnbuilt }

// Discard gives letters up: those that wait, are parked, or were left in sending.
// They stay readable, and can be reopened, until Retain removes them.
func (l *Letters) Discard(ctx context.Context, f Filter, n Note) (int64, error) { return 0, errUnbuilt }
