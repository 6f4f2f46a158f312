package dlq_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

func TestALetterThatComesBackTooOftenIsParked(t *testing.T) {
	each(t, func(r *rig) {
		id := r.fill(1)[0]
		c := all()
		c.Cap = 2
		for range 2 {
			r.redrive(c)
			r.store(r.again(r.pub.take()[0], "key-0"))
			r.want(id, dlq.Waiting)
		}
		if run := r.redrive(c); run.Counts.Parked != 1 || run.Counts.Sent != 0 {
			r.Errorf("%+v", run.Counts)
		}
		r.want(id, dlq.Parked)
		if run := r.redrive(c); run.Counts.Looked != 0 {
			r.Errorf("a parked letter was looked at: %+v", run.Counts)
		}
		n, err := r.letters.Reopen(r.Context(), dlq.Filter{IDs: []int64{id}}, note)
		if r.must(err); n != 1 {
			r.Errorf("reopened %d", n)
		}
		if run := r.redrive(c); run.Counts.Sent != 1 {
			r.Errorf("reopened: %+v", run.Counts)
		}
	})
}

func TestARunPausesWhenAllOfItComesBack(t *testing.T) {
	for _, keep := range []bool{false, true} {
		r := newRig(t, databases[3], dlq.Config{})
		r.fill(60)
		r.pub.after = func(_ string, m *message.Message) {
			r.must(r.collect(r.again(m, m.Metadata["event_id"])))
		}
		c := all()
		c.Rate, c.KeepGoing = 80, keep
		run, err := r.letters.Redrive(t.Context(), r.pub, c)
		if keep {
			if err != nil || run.Counts.Sent != 60 {
				t.Errorf("keep going: %+v, %v", run, err)
			}
			continue
		}
		if !errors.Is(err, dlq.ErrPaused) || run.State != dlq.Paused || run.Counts.Sent < 20 || run.Counts.Sent >= 60 {
			t.Fatalf("%+v, %v", run, err)
		}
		r.pub.after = nil
		before := run.Counts.Sent
		run, err = r.letters.Resume(t.Context(), r.pub, run.ID, dlq.ResumeConfig{KeepGoing: true})
		if err != nil || run.State != dlq.Done || run.Counts.Sent != 60 {
			t.Errorf("resumed after %d: %+v, %v", before, run, err)
		}
	}
}

func TestARunWithSomeSuccessIsNotPaused(t *testing.T) {
	r := newRig(t, databases[3], dlq.Config{})
	r.fill(60)
	n := 0
	r.pub.after = func(_ string, m *message.Message) {
		if n++; n%10 == 0 {
			r.process(m.Metadata["event_id"], "x")
			return
		}
		r.must(r.collect(r.again(m, m.Metadata["event_id"])))
	}
	c := all()
	c.Rate = 80
	if run, err := r.letters.Redrive(t.Context(), r.pub, c); err != nil || run.Counts.Sent != 60 {
		t.Errorf("%+v, %v", run, err)
	}
}

func TestARunEndsThoughEverythingComesStraightBack(t *testing.T) {
	each(t, func(r *rig) {
		r.fill(30)
		fresh := 0
		r.pub.after = func(_ string, m *message.Message) {
			r.must(r.collect(r.again(m, m.Metadata["event_id"])))
			fresh++
			r.must(r.collect(r.died(fmt.Sprintf("fresh-%d", fresh), "x")))
		}
		c := all()
		c.Batch, c.KeepGoing = 7, true
		if run := r.redrive(c); run.Counts.Sent != 30 {
			r.Errorf("%+v", run.Counts)
		}
		if got := r.states(); got[dlq.Waiting] != 60 || len(got) != 1 {
			r.Errorf("%v", got)
		}
	})
}

// A letter may come back before its run has marked it as sent: whichever of the
// two is first, it waits in the end. SEKALI_RACES=10000 is the long form.
func TestALetterThatDiesAtOnceWaitsWhateverTheRace(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) { race(t, d, 60) })
	}
	t.Run("fast", func(t *testing.T) {
		letters, err := strconv.Atoi(cmp.Or(os.Getenv("SEKALI_RACES"), "1000"))
		if err != nil {
			t.Fatal(err)
		}
		race(t, unsafeSQLite, letters)
	})
}

func race(t *testing.T, d database, letters int) {
	t.Helper()
	r := newRig(t, d, dlq.Config{AllowLossOnCrash: true})
	for i := range letters {
		r.must(r.collect(r.died(fmt.Sprintf("key-%d", i), "x")))
	}
	claimed := r.clock().Format(time.RFC3339Nano)
	back := make(chan *message.Message, letters)
	var consumers sync.WaitGroup
	for range 4 {
		consumers.Go(func() {
			for m := range back {
				_, h := wire(m)
				h[letter.HeaderReason], h[letter.HeaderConsumer], h[letter.HeaderQueue] = "again", queue, queue
				h[letter.HeaderFingerprint] = fmt.Sprintf("%x", inbox.Fingerprint(m.Payload))
				h[letter.HeaderClaimedAt], h[letter.HeaderLetterKey] = claimed, m.Metadata["event_id"]
				if err := r.collect(delivered(queue+".dlq", &letter.Delivery{Headers: h, Body: m.Payload})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	r.pub.after = func(_ string, m *message.Message) { back <- m }
	c := all()
	c.Batch, c.KeepGoing, c.Lease = 20, true, time.Minute
	run := r.redrive(c)
	close(back)
	consumers.Wait()
	if got := r.states(); run.Counts.Sent != int64(letters) || got[dlq.Waiting] != int64(letters) || len(got) != 1 {
		t.Errorf("%+v: %v", run.Counts, got)
	}
	if n := r.count(dlq.Filter{}); n != int64(letters) {
		t.Errorf("%d letters, want %d", n, letters)
	}
}
