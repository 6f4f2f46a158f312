package middleware

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/internal/backoff"
	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/internal/settle"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// The waits between two tries to publish a letter or a delayed retry.
const (
	publishFirst = 200 * time.Millisecond
	publishLimit = 5 * time.Second
)

// persist repeats a publish until it is confirmed. Running the handler again
// would not help, so the message is kept meanwhile; only a shutdown gives it
// back. The first try is made in any case, with a context of its own: a message
// that died while the service goes down is a letter all the same.
func (d *delivery) persist(log *slog.Logger, what string, publish func(ctx context.Context) error) bool {
	ctx := d.msg.Context()
	waits := backoff.New(publishFirst, publishLimit)
	for try := 1; ; try++ {
		pctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.stack.config.PublishTimeout)
		err := publish(pctx)
		cancel()
		if err == nil {
			return true
		}
		log.Error(what+" could not be published, the message is kept", "try", try, "err", err)
		if backoff.Sleep(d.waiting, waits.Next()) != nil {
			return false
		}
	}
}

// putBack tells a letter that somebody moved to its queue again, by whatever
// means: it begins anew, or it would die of its old attempts.
func putBack(msg *message.Message) bool { return msg.Metadata[letter.HeaderReason] != "" }

// attemptsBefore reads how many attempts earlier deliveries have made.
func attemptsBefore(msg *message.Message) int {
	if putBack(msg) {
		return 0
	}
	n, err := strconv.Atoi(msg.Metadata[letter.HeaderAttempt])
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// firstFailure reads when an earlier delivery failed first; zero if none did.
func firstFailure(msg *message.Message) time.Time {
	if putBack(msg) {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, msg.Metadata[letter.HeaderFirstFailure])
	if err != nil {
		return time.Time{}
	}
	return at
}

// retry is the message as it goes on a delayed retry.
func (d *delivery) retry(ctx context.Context, v settle.Verdict) *message.Message {
	m := d.msg.Copy()
	m.SetContext(ctx)
	for _, h := range []string{letter.HeaderReason, letter.HeaderLetterKey, letter.HeaderConsumer, letter.HeaderFingerprint, letter.HeaderClaimedAt} {
		delete(m.Metadata, h) // of an earlier death
	}
	m.Metadata.Set(letter.HeaderAttempt, strconv.Itoa(v.Attempts))
	m.Metadata.Set(letter.HeaderFirstFailure, v.FirstFailure.UTC().Format(time.RFC3339Nano))
	return m
}

// letter is the message as it goes to the DLQ: all that came, and what an
// operator needs to judge it.
func (d *delivery) letter(ctx context.Context, v settle.Verdict) *message.Message {
	m := d.retry(ctx, v)
	set := func(name, value string) {
		if value != "" {
			m.Metadata.Set(name, value)
		}
	}
	set(letter.HeaderReason, letter.Reason(v.Reason))
	set(letter.HeaderConsumer, d.last.claim.Consumer)
	queue, exchange, routingKey := d.queue(), "", ""
	if l, ok := letter.FromContext(ctx); ok {
		queue, exchange, routingKey = l.Origin()
	}
	set(letter.HeaderQueue, queue)
	set(letter.HeaderExchange, exchange)
	set(letter.HeaderRoutingKey, routingKey)
	var e *inbox.Error
	if errors.As(v.Reason, &e) {
		set(letter.HeaderLetterKey, e.Claim.Key) // as it is stored
		if !e.ClaimedAt.IsZero() {
			set(letter.HeaderClaimedAt, e.ClaimedAt.UTC().Format(time.RFC3339Nano))
		}
	} else if d.last.claim.Key != "" {
		set(letter.HeaderLetterKey, inbox.StoredKey(d.last.claim.Key))
	}
	set(letter.HeaderFingerprint, hex.EncodeToString(d.last.claim.Fingerprint))
	return m
}
