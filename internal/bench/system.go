package main

import (
	"context"
	"fmt"
	"strings"
)

// Tables of claims.
const (
	byHandTable = "processed"
	sekaliTable = "processed_messages"
)

// system is one way to do the work: a row of the tables.
type system struct {
	name   string
	what   string
	share  float64 // of -messages, so that slow ones do not take minutes
	claims string  // table that holds a row for each message afterwards, "" where there is none
	effect bool    // it writes to the database
	broker bool    // it consumes a queue
	// run works until ctx ends, and returns when its handlers have finished.
	run func(ctx context.Context, j *job) error
}

// systems in the order of the tables; see doc.go.
var systems = []system{
	{"P0", "no claim: amqp091-go, pgx, 32 workers", 1, "", true, true, bare(withoutClaim)},
	{"P1", "by hand: watermill-amqp, lib/pq, 1 subscriber", 0.1, byHandTable, true, true, mill(1, millByHand)},
	{"P2", "by hand: watermill-amqp, lib/pq, 32 subscribers", 0.25, byHandTable, true, true, mill(workers, millByHand)},
	{"P3", "by hand: amqp091-go, pgx, 32 workers", 0.3, byHandTable, true, true, bare(byHand)},
	{"P4", "Watermill's Deduplicator (memory only: forgets after a minute and at a crash, loses what fails), 32 subscribers", 0.4, "", true, true, mill(workers, millDeduplicator)},
	{"S1", "Sekali, lib/pq", 0.25, sekaliTable, true, true, sekaliPq(0)},
	{"S2", "Sekali, pgx", 0.35, sekaliTable, true, true, sekaliPgx(0)},
	{"S3", "Sekali, lib/pq, groups of 64", 1, sekaliTable, true, true, sekaliPq(group)},
	{"S4", "Sekali, pgx, groups of 64", 1, sekaliTable, true, true, sekaliPgx(group)},
	{"S4h", "as S4, through rabbit.Handle instead of Watermill", 1, sekaliTable, true, true, sekaliHandle},
	{"S5", "Sekali, pgx, groups of 64, one UPDATE for each (middleware.Set)", 1, sekaliTable, true, true, sekaliSet},
	{"L1", "limit: the same UPDATEs in one session and transaction, no broker", 1, "", true, false, oneSession},
	{"L2", "limit: consume and ack, amqp091-go, no database", 2, "", false, true, consumeBare},
	{"L2s", "limit: consume and ack, Sekali's subscriber, no database", 2, "", false, true, consumeOurs},
}

func find(name string) (system, error) {
	var names []string
	for _, s := range systems {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	return system{}, fmt.Errorf("unknown system %q: there are %s", name, strings.Join(names, " "))
}
