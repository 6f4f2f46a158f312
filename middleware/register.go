package middleware

import (
	"cmp"
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Register registers the consumer of a queue before its first message. Our
// RabbitMQ subscriber calls it for each queue (its Register field); with another
// Pub/Sub, add Plugin to the router instead.
func (i *Idempotent) Register(ctx context.Context, queue string) error {
	return i.inbox.Register(ctx, inbox.Consumer{
		Name:    cmp.Or(i.config.Consumer, queue),
		Queue:   cmp.Or(i.config.Queue, queue),
		KeyRule: i.config.Key.String(),
		Mode:    i.config.Mode,
	})
}

// Plugin registers the consumers that the configuration names (Consumer, or
// every handler with ConsumerIsHandler) before the router subscribes. Give it to
// router.AddPlugin. It returns an error, and the router does not start, when the
// configuration names none, and when a name belongs to another queue or service.
func (i *Idempotent) Plugin(r *message.Router) error {
	ctx := context.Background()
	switch {
	case i.config.ConsumerIsHandler:
		for name := range r.Handlers() {
			if err := i.inbox.Register(ctx, inbox.Consumer{Name: name, Queue: name, KeyRule: i.config.Key.String(), Mode: i.config.Mode}); err != nil {
				return err
			}
		}
	case i.config.Consumer != "":
		return i.Register(ctx, i.config.Consumer)
	default:
		return inbox.Configf("plugin", "the configuration names no consumer to register: set Config.Consumer, one name per queue (or choose ConsumerIsHandler); with our RabbitMQ subscriber leave the plugin out and set rabbit.SubscriberConfig.Register to the stack's Register")
	}
	return nil
}

// Register registers the consumer of a queue, see Idempotent.Register.
func (s *Stack) Register(ctx context.Context, queue string) error {
	return s.idempotent.Register(ctx, queue)
}

// Plugin registers the consumers before the router subscribes, see
// Idempotent.Plugin.
func (s *Stack) Plugin(r *message.Router) error { return s.idempotent.Plugin(r) }
