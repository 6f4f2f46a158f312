package letter

import "context"

type stoppingKey struct{}

// WithStopping is for subscribers: stopping is closed when they have begun to
// drain. The contexts of their messages are not cancelled then, so that running
// handlers can finish.
func WithStopping(ctx context.Context, stopping <-chan struct{}) context.Context {
	return context.WithValue(ctx, stoppingKey{}, stopping)
}

// Stopping returns the channel of WithStopping; nil, which never yields, when
// there is none. Whoever merely waits with a message in hand (for a store to
// come back, for a retry) gives it back when this is closed.
func Stopping(ctx context.Context) <-chan struct{} {
	stopping, _ := ctx.Value(stoppingKey{}).(<-chan struct{})
	return stopping
}
