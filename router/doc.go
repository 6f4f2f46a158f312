// Package router puts a whole service together: RabbitMQ, Watermill's router, a
// claim for every message, retries and letters.
//
// # Guarantee
//
// Every message of a handled queue takes effect once in the inbox's database,
// and is acked after that commit; what is given up becomes a letter, confirmed
// before the ack. See package inbox for what that means and package middleware
// for when a message is given up.
//
// # Smallest use
//
//	box, err := pginbox.Open(ctx, db, pginbox.Config{})
//	...
//	svc, err := router.New(url, box, router.Config{})
//	...
//	err = svc.Handle("orders.stock", handler)
//	...
//	err = svc.Run(ctx) // until ctx ends; handlers finish first
//
// # What happens when
//
//	queue or its DLQ missing            Run returns an error that names it, unless Topology declares them
//	retry queues missing                delayed retry is off for that queue, and said
//	broker away                         at start an error; later reconnected without limit
//	database away                       deliveries are held
//	fewer connections than handlers     concurrency is lowered to the pool, and said
//	name used by another queue/service  Run returns an error
package router
