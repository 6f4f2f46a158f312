package settle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sekali-mq/sekali/internal/backoff"
	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// The waits between two tries to publish a letter or a delayed retry.
const (
	publishFirst = 200 * time.Millisecond
	publishLimit = 5 * time.Second

	// delayTries to publish a delayed retry before the message becomes a letter.
	delayTries = 5
)

// Exits are the ways on which a message leaves its queue otherwise than acked.
type Exits struct {
	// Delay publishes the delayed retry and returns the wait it chose once that is
	// confirmed.
	Delay func(ctx context.Context, facts letter.Facts, wait time.Duration) (time.Duration, error)
	// Letter publishes the letter; nil means confirmed.
	Letter func(ctx context.Context, facts letter.Facts) error
	// Timeout bounds one publish.
	Timeout time.Duration
	// Log names consumer and key in its attributes.
	Log *slog.Logger
}

// CarryOut does what was decided and tells whether the delivery is to be acked;
// otherwise it goes back. Nothing is acked before its letter or retry is
// confirmed.
//
// claim is what is known of it; origin fills queue, exchange and routing key of
// the facts. ctx carries values for the publish; waiting ends when the consumer
// shuts down.
func (v Verdict) CarryOut(ctx, waiting context.Context, claim inbox.Claim, origin letter.Facts, e Exits) (ack bool) {
	facts := v.facts(claim, origin)
	e.Log = v.counted(e.Log)
	switch v.Action {
	case inbox.Ack:
		return true
	case inbox.Delay:
		retry := facts
		retry.Reason = nil
		err := e.persist(ctx, waiting, "delayed retry", delayTries, func(ctx context.Context) error {
			wait, err := e.Delay(ctx, retry, v.Wait)
			if err == nil {
				v.tellDelay(ctx, e.Log, wait)
			}
			return err
		})
		if err == nil || waiting.Err() != nil {
			return err == nil
		}
		// The retry queue is gone or full. The message would keep its place for ever.
		facts.Reason = fmt.Errorf("no delayed retry (%w): %w", err, v.Reason)
		return e.letter(ctx, waiting, facts)
	case inbox.DeadLetter:
		return e.letter(ctx, waiting, facts)
	case inbox.Requeue, inbox.Retry, inbox.Hold:
	}
	e.Log.Debug("message goes back", "err", v.Reason)
	return false
}

func (v Verdict) facts(claim inbox.Claim, f letter.Facts) letter.Facts {
	f.Attempts, f.Waits, f.FirstFailure, f.Reason = v.Attempts, v.Waits, v.FirstFailure, v.Reason
	f.Consumer, f.Fingerprint = claim.Consumer, claim.Fingerprint
	if claim.Key != "" {
		f.Key = inbox.StoredKey(claim.Key)
	}
	if e, ok := errors.AsType[*inbox.Error](v.Reason); ok {
		f.ClaimedAt = e.ClaimedAt
	}
	return f
}

func (e Exits) letter(ctx, waiting context.Context, facts letter.Facts) (ack bool) {
	return nil == e.persist(ctx, waiting, "letter", 0, func(ctx context.Context) error {
		err := e.Letter(ctx, facts)
		if err == nil {
			e.Log.Error("message became a letter", "queue", facts.Queue, "err", facts.Reason)
		}
		return err
	})
}

// persist repeats a publish until it is confirmed. Running the handler again
// would not help, so the message is kept meanwhile; only a shutdown gives it
// back. The first try is made in any case, with a context of its own: a message
// that died while the service goes down is a letter all the same.
//
// After that many tries (0: no bound) or at a shutdown it returns the last error.
func (e Exits) persist(ctx, waiting context.Context, what string, tries int, publish func(ctx context.Context) error) error {
	waits := backoff.New(publishFirst, publishLimit)
	for try := 1; ; try++ {
		pctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.Timeout)
		err := publish(pctx)
		cancel()
		if err == nil {
			return nil
		}
		e.Log.Error(what+" could not be published, the message is kept", "try", try, "err", err)
		if try == tries || backoff.Sleep(waiting, waits.Next()) != nil {
			return err
		}
	}
}
