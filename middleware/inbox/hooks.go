package inbox

import (
	"context"
	"time"
)

// Hooks observe the inbox. They run on the hot path, on the goroutine of Do:
// they must not block, and must be safe for concurrent use.
type Hooks struct {
	// Done is called once for every Do, after the transaction ended. Defaults to
	// nil.
	Done func(ctx context.Context, e Event)
}

// Event describes one finished Do.
type Event struct {
	// Claim with its key in stored form; only the consumer is set where there was
	// no claim.
	Claim Claim
	// Outcome as Do returned it; Failed when the handler panicked or left its
	// goroutine.
	Outcome Outcome
	// WouldBe is the outcome that Enforce would have had, in Observe; elsewhere it
	// equals Outcome.
	WouldBe Outcome
	// Err as Do returned it. Its class is ClassOf(Err).
	Err error
	// Attempt as WithAttempt put it into the context, 1 by default.
	Attempt int
	// Group is how many deliveries were committed by the same transaction, 1 without
	// group commit; 0 when nothing was committed.
	Group int
	// Duration of the whole Do, waits for other claims included.
	Duration time.Duration
	// Age of the claim that made this one a duplicate or a conflict, by the
	// database's clock; zero otherwise.
	Age time.Duration
}
