// Package rabbit is the RabbitMQ (AMQP 0-9-1) transport: a Watermill subscriber
// and publisher that lose no delivery, on github.com/rabbitmq/amqp091-go.
//
// # What it guarantees
//
// A delivery is settled exactly once, on the channel that brought it, or not at
// all: then the broker delivers it again. It is acked only when its handler was
// done with it. A publish without an error was confirmed by the broker and
// routed to at least one queue. Nothing is delivered or published exactly once:
// copies are for the consumer's inbox to recognise.
//
// # How it works
//
// A Connection is one TCP connection for consuming and one for publishing, each
// dialled again without limit when it breaks. Each subscription has a channel of
// its own; when that dies it opens another, and what was in flight is settled
// on the dead one, which does nothing. Watermill sees the queue name, all
// properties and all headers of any producer's messages.
//
// # Smallest use
//
//	conn, err := rabbit.NewConnection("amqp://user:password@localhost/", rabbit.ConnectionConfig{})
//	sub, err := rabbit.NewSubscriber(conn, rabbit.SubscriberConfig{Concurrency: 32})
//	pub, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
//	router.AddConsumerHandler("stock", "orders", sub, handle)
//
// Nothing is declared on the broker unless a Topology is given. Close the
// router, then sub and pub, then conn.
//
// # What happens when
//
//	connection lost                 dialled again with backoff and jitter; messages in handlers go on, their acks do nothing, copies come
//	broker cancels the consumer     noticed; consumed again with backoff; acks on the living channel still count
//	queue deleted                   logged with the name; tried again with backoff, declared again where there is a Topology
//	handler nacks                   put back after a pause that grows with the returns of the message
//	header of any type, no headers  delivered
//	Close, context cancelled        no new messages, handlers finish within CloseTimeout, the rest goes back at once
//	message cannot be read at all   (headers larger than frame_max, unknown types) the client closes the connection: logged with the cause, backoff
//	publish: no queue bound         ErrUnroutable
//	publish: exchange missing       ErrNoExchange
//	publish: queue full             ErrNacked
//	publish: memory or disk alarm   waits up to Timeout, then ErrNotSent or ErrUnknown
//	publish: connection lost        before writing: the next connection is used; after: ErrUnknown
//	queue is a stream               refused with the first delivery: streams cannot take a message back
package rabbit
