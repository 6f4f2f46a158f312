package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/sekali-mq/sekali/router/rabbit"
)

// report is what a run came to.
type report struct {
	version                                      string
	took, crashTook                              time.Duration
	confirmed, deliveries, effects, copies       int64
	unknown, notSent, refused, unroutable        int64
	missing, destroyed, strangers                int64
	cut, crashes, deleted                        int64
	undrained, goroutinesBefore, goroutinesAfter int
	heap                                         []uint64 // live bytes at each quarter
	stats                                        rabbit.Stats
}

// settle takes over what the books say.
func (r *report) settle(b *books) {
	r.confirmed, r.deliveries, r.effects, r.copies = b.confirmed.Load(), b.deliveries.Load(), b.effects.Load(), b.copies.Load()
	r.unknown, r.notSent, r.refused, r.unroutable = b.unknown.Load(), b.notSent.Load(), b.refused.Load(), b.unroutable.Load()
	r.missing, r.destroyed, r.strangers = b.missing(), b.destroyed.Load(), b.strangers.Load()
	r.cut, r.crashes, r.deleted = b.connections.Load(), b.crashes.Load(), b.deleted.Load()
}

// lost is what was confirmed and is nowhere, the operator's doing left aside.
func (r *report) lost() int64 { return r.missing - r.destroyed }

// slack is what a heap may differ by from one garbage collection to the next.
const slack = 4 << 20

func (r *report) flat() bool {
	for _, h := range r.heap {
		if h > r.heap[0]+r.heap[0]/10+slack {
			return false
		}
	}
	return len(r.heap) > 0
}

// faults are the broken promises.
func (r *report) faults() []string {
	var found []string
	for _, f := range []struct {
		broken bool
		text   string
	}{
		{r.lost() != 0, "confirmed messages were lost"},
		{r.effects+r.missing != r.confirmed, "effects and confirmed messages do not add up"},
		{r.strangers != 0, "something was handed out that nobody sent"},
		{r.undrained != 0, "the queue was not drained in time"},
		{r.goroutinesAfter > r.goroutinesBefore, "goroutines are left"},
		{!r.flat(), "the heap grew"},
		{r.confirmed == 0 || r.crashes != 1 || r.deleted != 3 || r.destroyed == 0, "not everything was done"},
	} {
		if f.broken {
			found = append(found, f.text)
		}
	}
	return found
}

func (r *report) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(what string, n any, more string, args ...any) {
		fmt.Fprintf(t, "%s\t%v\t%s\n", what, n, fmt.Sprintf(more, args...))
	}
	line("ran for", r.took.Round(100*time.Millisecond), "RabbitMQ %s, quorum queue, %d producers, %d handlers", r.version, producers, workers)
	line("confirmed publishes", r.confirmed, "%.0f a second", float64(r.confirmed)/r.took.Seconds())
	line("publishes repeated", r.unknown+r.notSent+r.refused+r.unroutable, "outcome unknown %d, not sent %d, refused %d, unroutable %d",
		r.unknown, r.notSent, r.refused, r.unroutable)
	line("deliveries", r.deliveries, "%d of them copies; %d settled too late, %d returned unseen, %d consumers opened again",
		r.copies, r.stats.Late, r.stats.Returned, r.stats.Reopened)
	line("connections cut", r.cut, "by the broker, every %s", cutEvery)
	line("broker killed", r.crashes, "publishing again after %s", r.crashTook.Round(100*time.Millisecond))
	line("queue deleted", r.deleted, "drained %d, filled 1", r.deleted-1)
	line("destroyed", r.destroyed, "ready messages of the filled queue, by the operator")
	line("effects", r.effects, "one of every other confirmed message")
	line("lost", r.lost(), "")
	line("phantoms", r.strangers, "messages that nobody sent")
	line("goroutines", r.goroutinesAfter, "%d at the start", r.goroutinesBefore)
	for i, h := range r.heap {
		line(fmt.Sprintf("heap at %d/4", i+1), fmt.Sprintf("%.1f MB", float64(h)/(1<<20)), "")
	}
	for _, f := range r.faults() {
		line("BROKEN", "", "%s", f)
	}
	return t.Flush()
}
