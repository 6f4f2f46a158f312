package letter

import "context"

type stoppingKey struct{}

// WithStopping is for subscribers: stopping ends when they have begun to drain.
// The contexts of their messages do not end then, so that running handlers can
// finish.
func WithStopping(ctx, stopping context.Context) context.Context {
	return context.WithValue(ctx, stoppingKey{}, stopping)
}

// UntilStopping returns a context that ends with ctx, or when the subscriber has
// begun to drain. Whoever merely waits with a message in hand (for a store to
// come back, for a retry) gives it back then.
func UntilStopping(ctx context.Context) (context.Context, context.CancelFunc) {
	stopping, ok := ctx.Value(stoppingKey{}).(context.Context)
	if !ok {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(stopping, cancel)
	return ctx, func() { stop(); cancel() }
}
