package dlq_test

import (
	"testing"

	"github.com/sekali-mq/sekali/dlq"
)

func TestALetterGoesRoundAndComesToRest(t *testing.T) {
	eachDriver(t, func(r *rig) {
		l := r.store(r.died("k1", "body"))
		if l.State != dlq.Waiting || l.Queue != queue || l.Consumer != queue || l.Key != "k1" || l.Reason != dlq.Failed || l.Attempts != 10 {
			r.Fatalf("collected as %+v", l)
		}
		run := r.redrive(all())
		if run.Counts.Sent != 1 {
			r.Fatalf("run: %+v", run.Counts)
		}
		r.want(l.ID, dlq.Sent)
		sent := r.pub.take()
		r.store(r.again(sent[0], "k1"))
		r.want(l.ID, dlq.Waiting)
		if got := r.get(l.ID); got.Redrives != 1 || got.Error != "again" {
			r.Errorf("back as %+v", got)
		}
		r.redrive(all())
		r.process("k1", "body")
		f, err := r.letters.Fates(r.Context(), r.get(l.ID).Run)
		r.must(err)
		if f.Processed != 1 {
			r.Errorf("fates: %+v", f)
		}
		r.want(l.ID, dlq.Resolved)
		if h := r.history(l.ID); h != "collected sending sent back sending sent resolved" {
			r.Errorf("history: %s", h)
		}
		if n := r.count(dlq.Filter{}); n != 1 {
			r.Errorf("%d letters", n)
		}
	})
}
