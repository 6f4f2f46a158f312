package dlq

import (
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/middleware"
)

// CollectorConfig tells where letters come from. The zero value works with this
// project's subscriber.
type CollectorConfig struct {
	// Source names the dead letter queue in the letters. Defaults to the queue, or
	// the topic, that the message came from.
	Source string
	// Queue names the queue that letters of this source died in, where the message
	// does not tell. Defaults to Source without ".dlq" at its end.
	Queue func(source string) string
	// Unstorable takes letters that the database refuses, confirmed, to the topic
	// UnstorableTopic. Defaults to nil: they go back to the dead letter queue.
	Unstorable middleware.Confirmed
	// UnstorableTopic defaults to the source with ".unstorable" behind it.
	UnstorableTopic func(source string) string
	// Timeout bounds the storing of one letter. Defaults to 30 s.
	Timeout time.Duration
}

// Collector returns a handler that stores letters: give it to a router, on the
// dead letter queue, without any other middleware. It works with any Watermill
// subscriber. It returns nil only after the letter is committed; a message that
// is delivered again does not become a second letter, if it has a key, and a
// letter marked CopyOf, if it has none.
//
// With this project's subscriber everything is kept as it was on the wire;
// another one gives what it makes of a message: metadata, payload and UUID.
func (l *Letters) Collector(c CollectorConfig) message.NoPublishHandlerFunc {
	return func(*message.Message) error { return errUnbuilt }
}
