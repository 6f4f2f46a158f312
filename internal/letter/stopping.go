package letter

import "context"

// stopping is what a subscriber tells of its end.
type stopping struct {
	ctx context.Context //nolint:containedctx // ends when the drain begins
	own <-chan struct{} // ends with the message's own context
}

type stoppingKey struct{}

// WithStopping is for subscribers: it makes the context of one message. The context
// that UntilStopping derives from it ends with until, when the subscriber begins to
// drain or the message is not its own any more; the message's own goes on until
// cancel, so that a running handler can finish.
func WithStopping(ctx, until context.Context) (_ context.Context, cancel context.CancelFunc) {
	s := &stopping{ctx: until}
	ctx, cancel = context.WithCancel(context.WithValue(ctx, stoppingKey{}, s))
	s.own = ctx.Done()
	return ctx, cancel
}

// UntilStopping returns a context that ends with ctx, or when the subscriber has
// begun to drain. Whoever merely waits with a message in hand (for a store to
// come back, for a retry) gives it back then.
func UntilStopping(ctx context.Context) (context.Context, context.CancelFunc) {
	s, ok := ctx.Value(stoppingKey{}).(*stopping)
	switch {
	case !ok:
		return ctx, func() {}
	case ctx.Done() == s.own:
		// Nobody gave the message another end: the subscriber ends its context after it
		// was settled, or long after it stopped.
		return waiting{s.ctx, ctx}, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// waiting ends with one context and has the values of another, too.
type waiting struct {
	context.Context //nolint:containedctx // without values

	values context.Context //nolint:containedctx // of the message
}

func (w waiting) Value(key any) any {
	if v := w.Context.Value(key); v != nil {
		return v // that it can be cancelled, which package context asks for
	}
	return w.values.Value(key)
}
