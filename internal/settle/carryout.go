package settle

import (
	"context"
	"errors"
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
	// Log names consumer, key and attempt in its attributes.
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
	switch v.Action {
	case inbox.Ack:
		return true
	case inbox.Delay:
		facts.Reason = nil
		return e.persist(ctx, waiting, "delayed retry", func(ctx context.Context) error {
			wait, err := e.Delay(ctx, facts, v.Wait)
			if err == nil {
				e.Log.Info("message will be tried again", "wait", wait, "err", v.Reason)
			}
			return err
		})
	case inbox.DeadLetter:
		return e.persist(ctx, waiting, "letter", func(ctx context.Context) error {
			err := e.Letter(ctx, facts)
			if err == nil {
				e.Log.Error("message became a letter", "queue", facts.Queue, "err", v.Reason)
			}
			return err
		})
	case inbox.Requeue, inbox.Retry, inbox.Hold:
	}
	e.Log.Debug("message goes back", "err", v.Reason)
	return false
}

func (v Verdict) facts(claim inbox.Claim, f letter.Facts) letter.Facts {
	f.Attempts, f.FirstFailure, f.Reason = v.Attempts, v.FirstFailure, v.Reason
	f.Consumer, f.Fingerprint = claim.Consumer, claim.Fingerprint
	if claim.Key != "" {
		f.Key = inbox.StoredKey(claim.Key)
	}
	if e, ok := errors.AsType[*inbox.Error](v.Reason); ok {
		f.ClaimedAt = e.ClaimedAt
	}
	return f
}

// persist repeats a publish until it is confirmed. Running the handler again
// would not help, so the message is kept meanwhile; only a shutdown gives it
// back. The first try is made in any case, with a context of its own: a message
// that died while the service goes down is a letter all the same.
func (e Exits) persist(ctx, waiting context.Context, what string, publish func(ctx context.Context) error) bool {
	waits := backoff.New(publishFirst, publishLimit)
	for try := 1; ; try++ {
		pctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.Timeout)
		err := publish(pctx)
		cancel()
		if err == nil {
			return true
		}
		e.Log.Error(what+" could not be published, the message is kept", "try", try, "err", err)
		if backoff.Sleep(waiting, waits.Next()) != nil {
			return false
		}
	}
}
