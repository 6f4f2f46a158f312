// Package letter holds what every room must agree on when a delivery is put
// somewhere else: the names of our headers, a neutral and lossless form of an
// AMQP delivery, and the one rule that says what of it may be sent again.
//
// A delivery is republished in three places: to a retry queue, to a dead letter
// queue and, by a redrive, to the queue it died in. All three use Outgoing, so
// that none of them carries on what belongs to the broker: a kept x-death makes
// RabbitMQ believe in a dead-letter cycle and drop or block the message, CC
// routes a copy to other queues again, a kept expiration deletes a letter from
// the queue it waits in, and a user-id that is not ours closes the channel.
//
// The subscriber puts the Delivery into the context of each message
// (WithDelivery); whoever needs a typed header or a property reads it there
// (FromContext). The package knows neither AMQP client nor Watermill; it imports
// nothing but package inbox.
package letter
