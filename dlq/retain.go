package dlq

import (
	"context"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// RetainConfig says how long things are kept. The zero value works.
type RetainConfig struct {
	// Claims are kept this long, and longer where an open letter needs them.
	// Defaults to 30 days.
	Claims time.Duration
	// Letters that are resolved or discarded are kept this long after that.
	// Defaults to 30 days.
	Letters time.Duration
	// Every is the pause between two rounds. Defaults to 1 h.
	Every time.Duration
	// Uncollected tells how many dead letters of a consumer's queue are not
	// collected yet: while there are any, its claims are kept, since nobody knows
	// which ones they need. Defaults to nil: there are none.
	Uncollected func(ctx context.Context, c inbox.Consumer) (int64, error)
	// Anyway purges claims that open or uncollected letters need. Defaults to
	// false.
	Anyway bool
	// Report sees each round. Defaults to nil: rounds are only logged.
	Report func(Retained)
}

// Retained is what one round removed and kept.
type Retained struct {
	// Claims removed, by inbox and consumer.
	Claims map[string]map[string]int64
	// Kept for letters: sentences that name the consumer and the reason.
	Kept []string
	// Letters removed.
	Letters int64
	// Err of the round; the next one tries again.
	Err error
}

// Retain removes old claims of all consumers of the inboxes, and old letters,
// until ctx ends. A claim that an open letter needs stays. Several processes may
// run it.
func (l *Letters) Retain(ctx context.Context, c RetainConfig) error { return errUnbuilt }

// RetainOnce is one round of Retain.
func (l *Letters) RetainOnce(ctx context.Context, c RetainConfig) (Retained, error) {
	return Retained{}, errUnbuilt
}
