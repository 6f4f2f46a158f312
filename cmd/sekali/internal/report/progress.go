package report

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// long is how long work may take without a sign of life.
const long = time.Second

// Progress shows a bar for long work, only on a terminal. Nil shows nothing. It
// is for one goroutine at a time.
type Progress struct {
	w     io.Writer
	what  string
	since time.Time
	bar   *progressbar.ProgressBar
}

// NewProgress returns a bar on w, nil where w is no terminal.
func NewProgress(w io.Writer, what string) *Progress {
	under := w
	if s, ok := w.(*shared); ok {
		under = s.w
	}
	f, ok := under.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &Progress{w: w, what: what, since: time.Now()}
}

// Show how much is done; total 0 is not known.
func (p *Progress) Show(done, total int64) {
	if p == nil || p.bar == nil && time.Since(p.since) < long {
		return
	}
	if total <= 0 {
		total = -1
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(p.what),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetWidth(30),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	if total > 0 {
		p.bar.ChangeMax64(total)
		done = min(done, total)
	}
	_ = p.bar.Set64(done)
}

// End takes the bar away for what is printed next.
func (p *Progress) End() {
	if p != nil && p.bar != nil {
		_ = p.bar.Clear()
	}
}
