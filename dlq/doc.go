// Package dlq is the operator's table of dead letters. They are collected from
// dead letter queues, judged by what the consumers' inboxes can prove, and put
// back to the queues they died in.
//
// Looking at a queue of RabbitMQ changes it: a peek spends delivery limits and
// changes the order. So letters are moved into a table, with every property, every
// type of header and the raw body, and acknowledged after the commit. All looking
// and deciding happens there.
//
//	letters, err := dlq.Open(ctx, db, dlq.Config{Inboxes: map[string]*inbox.Inbox{"orders": box}})
//	router.AddConsumerHandler("letters", "orders.dlq", sub, letters.Collector(dlq.CollectorConfig{}))
//	...
//	plan, err := letters.Plan(ctx, c)                // the dry run
//	run, err := letters.Redrive(ctx, pub.ToQueues(), c)
//
// # What it guarantees
//
// A letter is in the dead letter queue, in the table, or confirmed in the queue it
// was redriven to; at no time nowhere. A redrive sends a letter once, or, where a
// process died or a confirm was lost, again under the same key, which its consumer
// recognises. Nothing is sent of which it is not proven that it was not processed,
// unless an operator says so by name.
//
//	it breaks here                          what is left             what happens next
//	collector, before its commit            the message in the DLQ   delivered again
//	collector, after the commit             row, and the message     merged into the row; without a key: marked as a possible copy
//	redrive, before rows are sending        waiting rows             the next run
//	redrive, while or after publishing      rows in sending          Resume, or the next run, sends them again
//	redrive, after the confirm              rows in sending          as before: a copy, which the claim absorbs
//	publish refused                         waiting row              the error is in its history; the run goes on
//	broker away                             rows in sending          the run waits
//	letter dies again before it is marked   waiting row              stays waiting: marking touches only rows that are sending
//
// A letter without a key whose consumer does not run this project's stack is sent
// once; if that has no answer it stays in sending for an operator.
//
// Users read docs/dlq.md.
package dlq
