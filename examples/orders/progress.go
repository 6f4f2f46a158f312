package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// longRun is how long a run may take without a sign of life.
const longRun = 3 * time.Second

// progress shows a bar on a terminal once the run has taken a while. Nil shows
// nothing.
type progress struct {
	start time.Time
	total int
	bar   *progressbar.ProgressBar
}

func newProgress(total int, asJSON bool) *progress {
	if !isTerminal(os.Stderr) || asJSON && !isTerminal(os.Stdout) {
		return nil
	}
	return &progress{start: time.Now(), total: total}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func (p *progress) show(done int) {
	if p == nil || p.bar == nil && time.Since(p.start) < longRun {
		return
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions(p.total, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription("orders handled"),
			progressbar.OptionShowCount(), progressbar.OptionSetWidth(40), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	_ = p.bar.Set(min(done, p.total))
}

// hide clears the line for what is printed next.
func (p *progress) hide() {
	if p != nil && p.bar != nil {
		_ = p.bar.Clear()
	}
}
