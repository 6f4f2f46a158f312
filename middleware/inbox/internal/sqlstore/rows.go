package sqlstore

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Rows are the result of a query, of database/sql or of a driver's own. The
// caller closes them.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
}

// ReadInserted reads the result of Dialect.Insert.
func ReadInserted(rows Rows) ([]Inserted, error) {
	var out []Inserted
	for rows.Next() {
		var r Inserted
		var at sql.NullInt64
		if err := rows.Scan(&r.Consumer, &r.Key, &at); err != nil {
			return nil, err
		}
		r.ProcessedAt = micros(at)
		out = append(out, r)
	}
	return out, rows.Err()
}

// ReadLock reads the result of Dialect.Lock.
func ReadLock(rows Rows) (yielded bool, err error) {
	for rows.Next() {
		if err := rows.Scan(&yielded); err != nil {
			return false, err
		}
	}
	return yielded, rows.Err()
}

// Arrange puts what the claim statement inserted in the order of cs, and has the
// rest looked up.
func Arrange(cs []inbox.Claim, rows []Inserted, lookup func([]inbox.Claim) ([]inbox.Record, error)) ([]inbox.Record, error) {
	recs := make([]inbox.Record, len(cs))
	var old []inbox.Claim
	var at []int
	for i, c := range cs {
		recs[i].Claim = c
		n := slices.IndexFunc(rows, func(r Inserted) bool { return r.Consumer == c.Consumer && r.Key == c.Key })
		if n < 0 {
			old, at = append(old, c), append(at, i)
			continue
		}
		recs[i].New, recs[i].ProcessedAt = true, rows[n].ProcessedAt
		rows = slices.Delete(rows, n, n+1) // a second copy in cs is not new
	}
	if len(rows) > 0 {
		return nil, fmt.Errorf("claim statement returned a row that was not asked for: consumer %q, key %q", rows[0].Consumer, rows[0].Key)
	}
	if len(old) == 0 {
		return recs, nil
	}
	found, err := lookup(old)
	if err != nil {
		return nil, fmt.Errorf("read the claims that exist: %w", err)
	}
	for i, r := range found {
		r.Horizon = time.Time{}
		recs[at[i]] = r
	}
	return recs, nil
}

// ReadRecords reads the result of Dialect.Lookup.
func ReadRecords(rows Rows, cs []inbox.Claim) ([]inbox.Record, error) {
	recs := make([]inbox.Record, len(cs))
	seen := 0
	for rows.Next() {
		var n, found int
		var fp []byte
		var at, age, horizon sql.NullInt64
		if err := rows.Scan(&n, &found, &fp, &at, &age, &horizon); err != nil {
			return nil, err
		}
		if n < 0 || n >= len(cs) {
			return nil, fmt.Errorf("row for claim %d of %d", n, len(cs))
		}
		seen++
		recs[n] = inbox.Record{Claim: cs[n], Found: found != 0, Horizon: micros(horizon)}
		if recs[n].Found {
			recs[n].Fingerprint = fp
			recs[n].ProcessedAt = micros(at)
			recs[n].Age = max(0, time.Duration(age.Int64)*time.Microsecond)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if seen != len(cs) {
		return nil, fmt.Errorf("%d rows for %d claims", seen, len(cs))
	}
	return recs, nil
}

// ReadConsumer reads the result of Keeping.Consumers for one name. t is for
// errors.
func ReadConsumer(rows Rows, t Table) (c inbox.Consumer, ok bool, err error) {
	cs, err := ReadConsumers(rows, t)
	if err != nil || len(cs) == 0 {
		return c, false, err
	}
	return cs[0], true, nil
}

// ReadConsumers reads the result of Keeping.Consumers.
func ReadConsumers(rows Rows, t Table) (cs []inbox.Consumer, err error) {
	for rows.Next() {
		var c inbox.Consumer
		var mode, former string
		var horizon, since sql.NullInt64
		var by, why sql.NullString
		if err := rows.Scan(&c.Name, &c.Service, &c.Queue, &c.KeyRule, &mode, &horizon, &former, &since, &by, &why); err != nil {
			return nil, err
		}
		c.Horizon, c.HeldSince, c.HeldBy, c.HeldWhy = micros(horizon), micros(since), by.String, why.String
		if c.Mode, err = inbox.ParseMode(mode); err != nil {
			return nil, inbox.ConfigError(fmt.Sprintf("consumer %q in %s", c.Name, t.Consumers), err)
		}
		if err := json.Unmarshal([]byte(former), &c.FormerNames); err != nil {
			return nil, inbox.Configf(fmt.Sprintf("consumer %q in %s", c.Name, t.Consumers), "former_names is no JSON array of strings: %w", err)
		}
		if len(c.FormerNames) == 0 {
			c.FormerNames = nil
		}
		cs = append(cs, c)
	}
	return cs, rows.Err()
}

// FormerNames is what is kept of them in the consumer's row.
func FormerNames(c inbox.Consumer) (string, error) {
	b, err := json.Marshal(append([]string{}, c.FormerNames...))
	return string(b), err
}
