// Command bench measures Sekali beside what people do without it, in one run, on one broker and one database, and judges the
// project's own bars by the ratios:
//
//	make bench
//	make bench BENCHFLAGS='-sections all -rounds 5 -json figures.json'
//	scripts/services run --instance bench postgres rabbitmq -- go run ./internal/bench -systems S4 -rounds 1 -cpuprofile cpu.out
//
// It is a module of its own, because it links watermill-amqp, which our users must not get from us. It makes a database and
// queues of its own and drops them; the PostgreSQL user must be allowed to create databases and to CHECKPOINT.
//
// # The work
//
// A message is persistent, with a JSON body of about 200 bytes and an event_id header, and asks for one
// UPDATE stock SET n = n + $1 WHERE id = $2, of a row at random. All messages are in the queue, confirmed, before the clock
// runs: from the first to the last message that is settled, which is when its effect is committed and its ack is the next thing
// the consumer does. Afterwards the consumer is gone and the books are checked: the sum of all effects, the number of claims,
// nothing left in the queue (all acks have arrived), no letters but those that were meant to be. Wrong books end the program
// with an error. Commits are durable (fsync, synchronous_commit and full_page_writes are checked); each measurement has empty
// tables and a new queue, and is preceded by a VACUUM and a CHECKPOINT, so that none pays for another. The systems run in turns,
// each round in another order; figures are medians of the rounds.
//
// Every system may have 160 unsettled deliveries, which is what router.New asks of the broker for groups of 64 (128 handed out, a
// quarter more on the way), and connections open before the clock runs. By hand, statements are prepared; Sekali is wired
// as its README says, without further tuning.
//
// # The systems
//
//	P0   no claim at all: amqp091-go, 32 workers on a pgx pool, one autocommit UPDATE, ack. Duplicates take effect again.
//	P1   the recipe by hand (BEGIN, INSERT ... ON CONFLICT DO NOTHING, UPDATE, COMMIT) in Watermill's router on watermill-amqp
//	     with lib/pq; one subscriber, which hands out one message at a time.
//	P2   the same, 32 subscribers on the queue.
//	P3   the same recipe on amqp091-go, 32 workers, pgx.
//	P4   Watermill's Deduplicator in memory, 32 subscribers, one autocommit UPDATE. Weaker than all others: it knows nothing of
//	     other processes and of what was before its start, forgets after a minute, and takes a message whose handler failed for
//	     a duplicate when it comes again.
//	S1   Sekali on lib/pq, a transaction for each message; router.New.
//	S2   the same on pgx.
//	S3   lib/pq, Group: 64.
//	S4   pgx, Group: 64.
//	S5   S4 with a handler of sets (middleware.Set): one UPDATE for all messages of a group.
//	S4h  S4 through rabbit.Handle on a plain consume loop.
//	L1   what the database can do: the same UPDATEs, in the same order, in one session and one transaction, without a broker.
//	L2   what the broker can do: consume and ack, amqp091-go; L2s through Sekali's subscriber.
//
// # The sections
//
//	throughput  all systems; also processor seconds of the consumer's process and of the servers, and allocations a message
//	            of the whole process, which is what a middleware adds to a service: compare S2 and S4 with P3.
//	latency     at 200 messages a second, from the moment before the publish to the moment before the ack.
//	instances   1, 2 and 4 processes on one queue, on 100 rows (hot) and on all (wide).
//	failures    one message in a hundred becomes a letter; how often the handlers of the others ran.
//	keys        what old claims cost: none, a tenth of -claims, -claims; keys in the order of time and at random; and an index
//	            on the time of the largest table. Needs 5 GB of disk and some minutes for ten million.
//	memory      a million messages through S4: heap, resident memory, goroutines.
//	far         the same work with a database that is -trip away; every answer of it is held back for so long.
//
// The bars are judged from what was measured in this run, on the classic queue; one that is not reached is printed, no error.
package main
