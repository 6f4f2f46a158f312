package faultproxy

import (
	"slices"
	"testing"
)

func TestPatternsAreFoundAcrossPackets(t *testing.T) {
	for _, c := range []struct {
		name    string
		packets []string
		strikes []int // packets that set a fault off, for faults on the first, second, ... occurrence
	}{
		{"whole", []string{"begin", "commit"}, []int{1}},
		{"any case", []string{"Q\x00\x00\x0bCommit\x00"}, []int{0}},
		{"split in two", []string{"com", "mit"}, []int{1}},
		{"split in bytes", []string{"c", "o", "m", "m", "i", "t"}, []int{5}},
		{"false start", []string{"com", "commit"}, []int{1}},
		{"counted once when it ends a packet", []string{"commit", "x", "y", "commit"}, []int{0, 3}},
		{"twice in a packet", []string{"commit commit"}, []int{0, 0}},
		{"split and whole", []string{"xxcom", "mit;commit", "commit"}, []int{1, 1, 2}},
		{"never", []string{"comm", "x", "it"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []int
			for nth := 1; ; nth++ {
				p := &Proxy{}
				p.LoseRequest("COMMIT", nth)
				var s scanner
				at := slices.IndexFunc(c.packets, func(packet string) bool { return s.scan(p, []byte(packet)) != nil })
				if at < 0 {
					break
				}
				got = append(got, at)
			}
			if !slices.Equal(got, c.strikes) {
				t.Errorf("strikes at %v, want %v", got, c.strikes)
			}
		})
	}
}

func TestPatternThatBeganBeforeTheFaultWasPlannedIsFound(t *testing.T) {
	p := &Proxy{}
	var s scanner
	s.scan(p, []byte("begin; com"))
	p.LoseRequest("commit", 1)
	if s.scan(p, []byte("mit")) == nil {
		t.Error("not found")
	}
}
