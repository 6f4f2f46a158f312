package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
)

// failEvery message of the failures section fails for good and becomes a letter.
const failEvery = 100

// failures measures groups in which one message in a hundred fails, before it has written anything or afterwards, and how
// often the handlers of the others ran.
func (b *bench) failures(ctx context.Context) error {
	variants := []struct {
		name, what string
		every      int
		before     bool
	}{
		{"none", "no message fails", 0, false},
		{"before", "1 in 100 fails before its write", failEvery, true},
		{"after", "1 in 100 fails after its write", failEvery, false},
	}
	list := b.chosen("S3", "S4", "S5")
	for round := range b.rounds {
		for _, i := range rand.Perm(len(list) * len(variants)) {
			s, v := list[i%len(list)], variants[i/len(list)]
			j := b.job(s, b.share(s), uint64(round))
			j.failEvery, j.failBefore = v.every, v.before
			j.runs = make([]atomic.Int32, j.messages)
			r, err := b.measure(ctx, s, j)
			if err != nil {
				return err
			}
			name := "failures/" + v.name + "/" + s.name
			b.add(name, r)
			var most, sum, good int32
			for seq := range j.runs {
				if n := j.runs[seq].Load(); v.every == 0 || (seq+1)%v.every != 0 { // a good one
					most = max(most, n)
					sum += n
					good++
				}
			}
			b.report.add(float64(most), name, "most-runs")
			b.report.add(float64(sum)/float64(good), name, "mean-runs")
			b.progressf("failures, round %d of %d: %s, %s: %.0f msg/s", round+1, b.rounds, s.name, v.what, r.Rate)
		}
	}
	var rows [][]string
	for _, s := range list {
		for _, v := range variants {
			name := "failures/" + v.name + "/" + s.name
			rows = append(rows, []string{
				s.name, v.what, b.report.figure("%.0f", name, "msg/s"), b.report.spread("%.0f", name, "msg/s"),
				b.report.ratioText(name+"/msg/s", "failures/none/"+s.name+"/msg/s"),
				b.report.figure("%.0f", name, "most-runs"), b.report.figure("%.2f", name, "mean-runs"),
			})
		}
	}
	b.report.table("Failures: letters among the messages", []string{"", "", "msg/s", "min-max", "to none", "most runs", "mean runs"}, rows,
		"runs: of the handlers of messages that do not fail",
		fmt.Sprintf("a failing message returns inbox.Permanent; its letter is confirmed before its ack (%d messages, %d letters)", b.share(list[0]), b.share(list[0])/failEvery))
	return nil
}
