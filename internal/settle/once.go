package settle

import (
	"context"
	"errors"
	"fmt"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Once is what a transport knows of one message that is to take effect once.
type Once struct {
	Inbox    *inbox.Inbox
	Consumer string
	Key      inbox.Key
	Message  inbox.Message
	// Fingerprint of the content; asked only when there is a key.
	Fingerprint func() []byte
	// ProcessUnclaimed runs fn for a message without a key, without a claim.
	ProcessUnclaimed bool
}

// Do runs fn once. It fills claim as it goes: what is known is there even when
// fn panics. The context of fn keeps the engine's deadline but does not end with
// ctx: subscribers end it at a shutdown, and a handler that is running then shall
// finish and commit.
func (o Once) Do(ctx context.Context, claim *inbox.Claim, fn func(ctx context.Context) error) (inbox.Outcome, error) {
	*claim = inbox.Claim{Consumer: o.Consumer}
	key, err := o.given(ctx)
	if err != nil {
		return inbox.Failed, err
	}
	if key == "" {
		key, err = o.Key.Of(o.Message)
	}
	noKey := errors.Is(err, inbox.ErrNoKey)
	switch {
	case errors.Is(err, inbox.Skip):
		return inbox.Unclaimed, nil
	case err == nil:
		claim.Key, claim.Fingerprint = key, o.Fingerprint()
		return o.Inbox.Do(inbox.Detach(ctx), *claim, fn)
	case noKey && o.ProcessUnclaimed, o.Inbox.Observes(o.Consumer):
		return o.Inbox.DoUnclaimed(inbox.Detach(ctx), o.Consumer, fn)
	}
	err = fmt.Errorf("key for consumer %q by rule %q: %w", o.Consumer, o.Key, err)
	if noKey { // it will have none next time either; a func's own error may pass
		err = inbox.Permanent(err)
	}
	return inbox.Failed, err
}

// given is the key that an operator gave the message for this consumer, before
// any rule; "" for none.
func (o Once) given(ctx context.Context) (string, error) {
	v, ok := o.Message.Header(letter.HeaderKey)
	if !ok {
		return "", nil
	}
	value, _ := letter.Text(v)
	if key, ok := letter.KeyFor(value, o.Consumer); ok {
		return key, nil
	}
	// Rare enough to ask: it was given under a former name, or to somebody else.
	c, _, err := o.Inbox.Consumer(ctx, o.Consumer)
	if err != nil {
		return "", err
	}
	key, _ := letter.KeyFor(value, c.FormerNames...)
	return key, nil
}
