package middleware

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Confirmed publishes messages and tells of each whether the broker has it. The
// result has one error a message, in order; nil must mean that the message is
// stored. It must be bounded by ctx.
type Confirmed interface {
	PublishEach(ctx context.Context, topic string, msgs ...*message.Message) []error
}

// Delayer puts a message back to its queue after about d. It returns the delay
// it chose once the broker confirmed the message; after an error the message is
// still the caller's.
type Delayer interface {
	Delay(ctx context.Context, msg *message.Message, d time.Duration) (time.Duration, error)
}

// Trust makes a Confirmed of a publisher that does not say whether it confirms.
// Use it for those whose Publish returns nil only when the message is stored;
// with any other, letters can be lost.
func Trust(p message.Publisher) Confirmed { return trusted{p} }

type trusted struct{ message.Publisher }

func (t trusted) PublishEach(ctx context.Context, topic string, msgs ...*message.Message) []error {
	errs := make([]error, len(msgs))
	for i, msg := range msgs {
		// Publish takes no context and may block for ever.
		done := make(chan error, 1)
		go func() { done <- t.publish(topic, msg) }()
		select {
		case errs[i] = <-done:
		case <-ctx.Done():
			errs[i] = context.Cause(ctx)
		}
	}
	return errs
}

// publish makes an error of a panic: on a goroutine nobody else recovers it.
func (t trusted) publish(topic string, msg *message.Message) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("publisher panicked: %v", v)
		}
	}()
	return t.Publish(topic, msg)
}
