// Package middleware is the Watermill side of Sekali: router middleware that
// runs every handler inside a claim, so that a message takes effect once however
// often it is delivered.
//
// # Guarantee
//
// A message is acked after the commit of its claim and its handler's writes, or
// after the broker confirmed its letter or its delayed retry; otherwise it goes
// back. See package inbox for what a claim guarantees.
//
// # How
//
// Stack is the whole way of a message to its handler, in the one order that
// loses nothing. Idempotent is its innermost part alone, for routers that have
// their own retries and letters around it.
//
// # Smallest use
//
//	stack, err := middleware.NewStack(box, publisher.ToQueues(), middleware.StackConfig{
//		Config: middleware.Config{Consumer: "orders"},
//	})
//	...
//	router.AddPlugin(stack.Plugin)
//	router.AddConsumerHandler("stock", "orders", subscriber, handle).AddMiddleware(stack.Middleware)
//
// Our RabbitMQ subscriber names the consumer after its queue: with
// rabbit.SubscriberConfig{Register: stack.Register} neither Consumer nor plugin
// are needed. The plugin registers the names that the Config gives, and is an
// error without one.
//
// In handle, inbox.Tx(msg.Context()) is the transaction to write through.
//
// # What becomes of a message
//
//	handler returned nil                acked, after the commit
//	copy of a processed message         acked, handler not called
//	same key, other content             letter
//	no key                              letter, unless ProcessUnclaimed
//	inbox.Permanent                     letter
//	error, panic                        again: delayed, or in place without a Delayer; then letter
//	runtime.Goexit                      delayed or letter; settled by the stack itself
//	undone by the database              again, not counted as an attempt
//	claim held elsewhere                again, later
//	database away, inbox set up wrong   all are held; goes on by itself
//	handler's tables missing            its messages are held while nothing else gets through; else letters
//	shutdown                            a running handler may commit; what waits goes back
//
// The package links neither a SQL driver nor an AMQP client, and works with any
// Watermill Pub/Sub. Where that hands out one message at a time (watermill-amqp),
// a failing message holds up the others for as long as InPlace allows.
package middleware
