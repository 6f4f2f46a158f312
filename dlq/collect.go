package dlq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/internal/backoff"
	"github.com/sekali-mq/sekali/internal/letter"
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

const (
	// The waits before a letter goes back that could not be stored: without them a
	// database that is away would make a hot loop.
	againFirst = 100 * time.Millisecond
	againLimit = 5 * time.Second

	defaultTimeout = 30 * time.Second
)

// Collector returns a handler that stores letters: give it to a router, on the
// dead letter queue, without any other middleware. It works with any Watermill
// subscriber. It returns nil only after the letter is committed; a message that
// is delivered again does not become a second letter, if it has a key, and a
// letter marked CopyOf, if it has none.
//
// With this project's subscriber everything is kept as it was on the wire;
// another one gives what it makes of a message: metadata, payload and UUID.
func (l *Letters) Collector(c CollectorConfig) message.NoPublishHandlerFunc {
	if c.UnstorableTopic == nil {
		c.UnstorableTopic = func(source string) string { return source + ".unstorable" }
	}
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	waits := newPauses()
	return func(msg *message.Message) error {
		waiting, cancel := letter.UntilStopping(msg.Context())
		defer cancel()
		err := l.collect(msg, c)
		if err == nil {
			waits.reset()
			return nil
		}
		l.config.Logger.Error("dead letter could not be collected, it goes back", "queue", cmp.Or(c.Source, sourceOf(msg)), "uuid", msg.UUID, "err", err)
		_ = backoff.Sleep(waiting, waits.next())
		return fmt.Errorf("collect dead letter %q: %w", msg.UUID, err)
	}
}

func sourceOf(msg *message.Message) string {
	if d, ok := letter.FromContext(msg.Context()); ok {
		return d.Queue
	}
	return message.SubscribeTopicFromCtx(msg.Context())
}

// collect stores one message. Its own deadline, not the subscriber's context,
// bounds it: a letter that is being stored when the service goes down is stored.
func (l *Letters) collect(msg *message.Message, c CollectorConfig) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(msg.Context()), c.Timeout)
	defer cancel()
	d, err := readDeath(msg, c, l.config.RetryQueue)
	if err != nil {
		return l.unstorable(msg, c, err)
	}
	if err := d.resolve(ctx, &l.registry); err != nil {
		return err
	}
	err = l.store(ctx, d)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The database refused. Is it this letter, or any?
	if perr := l.probe(ctx); perr != nil {
		return fmt.Errorf("%w (the database refuses others, too: %w)", err, perr)
	}
	if _, ok := errors.AsType[*unknownCommitError](err); ok {
		return err
	}
	if serr := l.store(ctx, d); serr == nil || ctx.Err() != nil {
		return serr
	}
	return l.unstorable(msg, c, err)
}

// unstorable puts a letter aside that cannot be kept in the table.
func (l *Letters) unstorable(msg *message.Message, c CollectorConfig, cause error) error {
	if c.Unstorable == nil {
		return fmt.Errorf("it cannot be stored, and there is no place for it: set CollectorConfig.Unstorable: %w", cause)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(msg.Context()), c.Timeout)
	defer cancel()
	topic := c.UnstorableTopic(cmp.Or(c.Source, sourceOf(msg)))
	out := msg.Copy()
	out.SetContext(context.WithoutCancel(msg.Context())) // with the delivery: all of it is put aside
	if err := c.Unstorable.PublishEach(ctx, topic, out)[0]; err != nil {
		return fmt.Errorf("it cannot be stored (%w), and not be put aside to %q: %w", cause, topic, err)
	}
	l.config.Logger.Error("dead letter cannot be stored and was put aside", "queue", topic, "uuid", msg.UUID, "err", cause)
	return nil
}

// probe writes a small letter and takes it back.
func (l *Letters) probe(ctx context.Context) error {
	d := &death{Letter: Letter{Reason: Unexplained}, bodyPrint: []byte{0}, encoded: []byte{0}, envelope: &envelope{}}
	undo := errors.New("probe")
	err := l.write(ctx, func(q querier) error {
		if _, err := l.insert(ctx, q, d, 0); err != nil {
			return err
		}
		return ours{undo}
	})
	if errors.Is(err, undo) {
		return nil
	}
	return err
}
