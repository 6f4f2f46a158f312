package middleware

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Set makes a handler of fn, which gets all new messages of a group in one call; see
// inbox.Set. ctx holds the transaction that all their claims are in; what belongs to
// one message (inbox.Current, inbox.Attempt) is in that message's own context. fn
// may be called more than once for a message, never after a commit, and must not
// keep the messages.
//
// Without group commit (inbox.Config.Group) it gets one message a call.
func Set(fn func(ctx context.Context, msgs []*message.Message) error) message.NoPublishHandlerFunc {
	set := inbox.NewSet(fn)
	return func(msg *message.Message) error { return set.Handle(msg.Context(), msg) }
}
