package rabbit

import (
	"errors"

	"github.com/sekali-mq/sekali/internal/letter"
)

// What became of a publish. Every error of a publish wraps exactly one of them
// (or the context's error together with ErrNotSent or ErrUnknown).
var (
	// ErrUnroutable: the broker took the message and no queue wanted it. It is in
	// no queue.
	ErrUnroutable = letter.FateError(letter.FateRefused, "no queue is bound for it: the message was returned")
	// ErrNacked: the broker refused the message (a full queue with
	// reject-publish, an internal error). It is in at least one queue less than it
	// should be.
	ErrNacked = letter.FateError(letter.FateRefused, "the broker refused the message")
	// ErrNoExchange: the exchange does not exist.
	ErrNoExchange = letter.FateError(letter.FateRefused, "the exchange does not exist: create it, or set Topology to have it declared")
	// ErrTooLarge: headers, properties, a name or the body exceed what the broker
	// takes. Nothing was sent.
	ErrTooLarge = letter.FateError(letter.FateRefused, "larger than the broker takes")
	// ErrBadHeader: a header has a type that AMQP cannot carry without loss.
	// Nothing was sent.
	ErrBadHeader = letter.FateError(letter.FateRefused, "header cannot be sent")
	// ErrNotSent: the message did not reach the wire: no connection, or a blocked
	// one, for longer than the timeout. Sending it again makes no copy.
	ErrNotSent = letter.FateError(letter.FateUnsent, "not sent")
	// ErrUnknown: it was written and not confirmed: the connection broke or the
	// timeout passed. It may be in the queues. Sending it again may make a copy,
	// which is what an idempotent consumer is for.
	ErrUnknown = letter.FateError(letter.FateUnknown, "sent, outcome unknown: no confirm")
	// ErrClosed: the publisher, subscriber or connection was closed.
	ErrClosed = letter.FateError(letter.FateClosed, "closed")
)

// ErrNoQueue: a queue that was to be consumed from, or to be found, does not
// exist.
var ErrNoQueue = errors.New("the queue does not exist: create it, or set Topology to have it declared")
