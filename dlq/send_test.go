package dlq_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/internal/letter"
)

func TestALetterThatCannotBePublishedWaitsAgainAndTheRunGoesOn(t *testing.T) {
	eachDriver(t, func(r *rig) {
		ids := r.fill(6)
		r.pub.answer = func(_ string, m *message.Message) error {
			if m.Metadata["event_id"] == "key-2" {
				return fmt.Errorf("publish: %w", errRefused)
			}
			return nil
		}
		run := r.redrive(all())
		if run.Counts.Sent != 5 || run.Counts.Failed != 1 {
			r.Errorf("%+v", run.Counts)
		}
		r.want(ids[2], dlq.Waiting)
		events, err := r.letters.History(r.Context(), ids[2])
		r.must(err)
		if last := events[len(events)-1]; last.What != "failed" || !strings.Contains(last.Text, "unroutable") {
			r.Errorf("%+v", last)
		}
		if l := r.get(ids[2]); l.Redrives != 0 {
			r.Errorf("counted as a redrive: %+v", l)
		}
		r.pub.answer = nil
		if run := r.redrive(all()); run.Counts.Sent != 1 {
			r.Errorf("next run: %+v", run.Counts)
		}
	})
}

func TestAnUnknownConfirmIsSentAgainAndNeverMarkedAsSent(t *testing.T) {
	each(t, func(r *rig) {
		id := r.fill(2)[1]
		var tries atomic.Int64
		r.pub.answer = func(_ string, m *message.Message) error {
			if m.Metadata["event_id"] == "key-1" {
				tries.Add(1)
				return errLost
			}
			return nil
		}
		run := r.redrive(all())
		if run.Counts.Sent != 1 || run.Counts.Unconfirmed != 1 || tries.Load() < 2 {
			r.Errorf("%+v after %d tries", run.Counts, tries.Load())
		}
		r.want(id, dlq.Sending)
		r.pub.answer = nil
		r.pub.take()
		r.redrive(all())
		r.want(id, dlq.Sent)
		if sent := r.pub.take(); len(sent) != 1 || sent[0].Metadata[letter.HeaderRedrive] != fmt.Sprintf("%d/1", id) {
			r.Errorf("%d sent", len(sent))
		}
	})
}

func TestARunWaitsForTheBroker(t *testing.T) {
	r := newRig(t, databases[3], dlq.Config{})
	r.fill(5)
	var tries atomic.Int64
	r.pub.answer = func(string, *message.Message) error {
		if tries.Add(1) <= 10 {
			return errUnsent
		}
		return nil
	}
	if run := r.redrive(all()); run.Counts.Sent != 5 || run.Counts.Failed != 0 {
		t.Errorf("%+v", run.Counts)
	}
	if !strings.Contains(r.log.String(), "waits for it") {
		t.Error("nothing was said")
	}
}
