package settle

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// A failed attempt is one line at WARN, or at ERROR where it was the last one or a
// panic. A wait is nobody's fault: in place it is not told, delayed it is INFO.

func (d Delivery) key() string {
	if d.Key == nil {
		return ""
	}
	return d.Key()
}

// tellRetry tells of an attempt after which the handler is run again in place.
func (r *round) tellRetry(wait time.Duration) {
	if v := r.verdict; v.failed && !v.panicked() {
		r.settler.log.Warn("handler failed, it runs again in place", "consumer", r.delivery.Consumer, "key", r.delivery.key(),
			"attempt", v.Attempts, "wait", wait, "err", v.Reason)
	}
}

// tellDelay tells of a message that is on a delayed retry.
func (v Verdict) tellDelay(ctx context.Context, log *slog.Logger, wait time.Duration) {
	level, text := slog.LevelInfo, "message will be tried again"
	if v.failed && !v.panicked() {
		level, text = slog.LevelWarn, "handler failed, message will be tried again"
	}
	log.Log(ctx, level, text, "wait", wait, "err", v.Reason)
}

// panicked: that was told when it happened, with its stack.
func (v Verdict) panicked() bool {
	_, ok := errors.AsType[*PanicError](v.Reason)
	return ok
}

// counted adds what the delivery came to so far.
func (v Verdict) counted(log *slog.Logger) *slog.Logger {
	if v.Attempts > 0 {
		log = log.With("attempt", v.Attempts)
	}
	if v.Waits > 0 {
		log = log.With("waits", v.Waits)
	}
	return log
}
