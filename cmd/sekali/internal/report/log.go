package report

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// Log shows log lines of libraries to an operator: the message, and what it is
// about.
type Log struct {
	mu    *sync.Mutex
	w     io.Writer
	level slog.Level
	hide  func(string) string
	attrs []slog.Attr
}

// NewLog returns a handler that prints lines from level on, with hide applied.
func NewLog(w io.Writer, level slog.Level, hide func(string) string) *Log {
	return &Log{mu: new(sync.Mutex), w: w, level: level, hide: hide}
}

var _ slog.Handler = (*Log)(nil)

// Enabled implements slog.Handler.
func (l *Log) Enabled(_ context.Context, level slog.Level) bool { return level >= l.level }

// Handle implements slog.Handler.
func (l *Log) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString("sekali: ")
	if r.Level >= slog.LevelWarn {
		b.WriteString("warning: ")
	}
	b.WriteString(r.Message)
	add := func(a slog.Attr) bool {
		b.WriteString(" " + a.Key + "=" + a.Value.String())
		return true
	}
	for _, a := range l.attrs {
		add(a)
	}
	r.Attrs(add)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := io.WriteString(l.w, Printable(l.hide(b.String()))+"\n")
	return err
}

// WithAttrs implements slog.Handler.
func (l *Log) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *l
	c.attrs = append(append([]slog.Attr(nil), l.attrs...), attrs...)
	return &c
}

// WithGroup implements slog.Handler; groups are not shown.
func (l *Log) WithGroup(string) slog.Handler { return l }
