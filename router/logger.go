package router

import (
	"context"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
)

// leveled spares Watermill's adapter what nobody reads: it makes the attributes of
// every line, two a message, before it asks for the level.
type leveled struct {
	watermill.LoggerAdapter
	log *slog.Logger
}

func newLogger(l *slog.Logger) watermill.LoggerAdapter {
	return leveled{watermill.NewSlogLogger(l), l}
}

func (l leveled) Trace(msg string, fields watermill.LogFields) {
	if l.log.Enabled(context.Background(), watermill.LevelTrace) {
		l.LoggerAdapter.Trace(msg, fields)
	}
}

func (l leveled) Debug(msg string, fields watermill.LogFields) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.LoggerAdapter.Debug(msg, fields)
	}
}

// Info leaves out Watermill's last word: it is said even when handlers were still
// running.
func (l leveled) Info(msg string, fields watermill.LogFields) {
	if msg != "All messages processed" {
		l.LoggerAdapter.Info(msg, fields)
	}
}

func (l leveled) With(fields watermill.LogFields) watermill.LoggerAdapter {
	return leveled{l.LoggerAdapter.With(fields), l.log}
}
