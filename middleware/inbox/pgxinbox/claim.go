package pgxinbox

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/postgres"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// queueClaim queues the claim of cs, and around it what a group needs: its lock
// before, the lock limit of the handlers' statements behind.
func (s *store) queueClaim(batch *pgx.Batch, cs []inbox.Claim, o inbox.BeginOptions) {
	if o.Lock != "" {
		b := postgres.Parameters()
		batch.Queue(postgres.Lock(b, s.table, o.Lock, o.LockMode, o.Wait), b.Args...)
	}
	if len(cs) > 1 {
		// One text for groups of every size: it is prepared once.
		columns := make([][]string, 2)
		fingerprints := make([][]byte, len(cs))
		for i, c := range cs {
			columns[0], columns[1] = append(columns[0], c.Consumer), append(columns[1], c.Key)
			if len(c.Fingerprint) > 0 { // else NULL
				fingerprints[i] = c.Fingerprint
			}
		}
		b := postgres.Parameters()
		text := postgres.InsertArrays(b, s.table, o.LockWait, s.durable)
		b.Args = append(b.Args, columns[0], columns[1])
		if s.table.Fingerprint {
			b.Args = append(b.Args, fingerprints)
		}
		batch.Queue(text, b.Args...)
	} else {
		b := postgres.Parameters()
		batch.Queue(postgres.Insert(b, s.table, cs, o.LockWait, s.durable), b.Args...)
	}
	if limits(o) {
		b := postgres.Parameters()
		batch.Queue(postgres.Limit(b, o.Wait), b.Args...)
	}
}

// readClaim reads the results of queueClaim.
func readClaim(br pgx.BatchResults, o inbox.BeginOptions) (inserted []sqlstore.Inserted, yielded bool, err error) {
	if o.Lock != "" {
		if err := br.QueryRow().Scan(&yielded); err != nil {
			return nil, false, fmt.Errorf("lock %q: %w", o.Lock, err)
		}
	}
	rows, err := br.Query()
	if err != nil {
		return nil, false, err
	}
	inserted, err = sqlstore.ReadInserted(rows)
	rows.Close()
	if err == nil && limits(o) {
		_, err = br.Exec()
	}
	return inserted, yielded, err
}

// limits tells whether the handlers' statements may wait longer than the claim.
func limits(o inbox.BeginOptions) bool { return o.Wait != 0 && o.Wait != o.LockWait }
