package rabbit

import "sync/atomic"

// Stats counts what a Subscriber has done since it was made.
type Stats struct {
	// Delivered messages that were handed out.
	Delivered int64
	// Acked deliveries.
	Acked int64
	// Requeued deliveries: nacked by a handler.
	Requeued int64
	// Returned deliveries that were never handed out: a drain gave them back.
	Returned int64
	// Late settles: the channel had died, so that they did nothing. The broker
	// delivers those messages again.
	Late int64
	// Reopened consumers: after a lost connection, a deleted queue, a timeout.
	Reopened int64
}

type stats struct {
	delivered, acked, requeued, returned, late, reopened atomic.Int64
}

// Stats returns the present counts.
func (s *Subscriber) Stats() Stats {
	return Stats{
		Delivered: s.stats.delivered.Load(), Acked: s.stats.acked.Load(), Requeued: s.stats.requeued.Load(),
		Returned: s.stats.returned.Load(), Late: s.stats.late.Load(), Reopened: s.stats.reopened.Load(),
	}
}
