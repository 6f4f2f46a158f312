package dlq_test

import (
	"testing"

	"github.com/sekali-mq/sekali/dlq"
)

// One letter was sent by a run, came back, and was resolved by the next one, since
// a copy had taken effect.
func TestFatesAreOfWhatThatRunSent(t *testing.T) {
	each(t, func(r *rig) {
		r.fill(2)
		first := r.redrive(all())
		back := r.pub.take()[0]
		r.must(r.collect(r.again(back, "key-0")))
		r.process("key-0", "x")
		second := r.redrive(all())
		if second.Counts.Resolved != 1 || second.Counts.Sent != 0 {
			r.Fatalf("%+v", second.Counts)
		}
		for id, want := range map[string]dlq.Fates{first.ID: {Open: 1, Other: 1}, second.ID: {}} {
			f, err := r.letters.Fates(r.Context(), id)
			if r.must(err); f != want {
				r.Errorf("fates of run %s: %+v, want %+v", id, f, want)
			}
		}
	})
}
