package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pgxinbox"
)

// store is a table that holds claims already.
type store struct {
	table  string
	timely bool // keys in the order of time
	claims int
	index  string // on processed_at: "", "btree" or "brin"
}

func (s store) String() string {
	keys, index := "random", "none"
	if s.timely {
		keys = "timely"
	}
	if s.index != "" {
		index = s.index
	}
	return fmt.Sprintf("%s/%d/%s", keys, s.claims, index)
}

// keys measures what the claims that are there cost those that come: none, a tenth of -claims and all of them, keys in the
// order of time (UUIDv7) and at random (UUIDv4), and on the largest table an index on the time. Our migrations make none.
func (b *bench) keys(ctx context.Context) error {
	s4, err := find("S4")
	if err != nil {
		return err
	}
	var plain, indexed []store
	for _, timely := range []bool{true, false} {
		for _, n := range []int{0, b.claims / 10, b.claims} {
			s := store{table: fmt.Sprintf("claims_%t_%d", timely, n), timely: timely, claims: n}
			b.progressf("keys: filling %s", s)
			if err := b.fill(ctx, s); err != nil {
				return fmt.Errorf("fill %s: %w", s, err)
			}
			plain = append(plain, s)
			if n == b.claims {
				for _, index := range []string{"btree", "brin"} {
					s.index = index
					indexed = append(indexed, s)
				}
			}
		}
	}
	for round := range b.rounds {
		list := append(append([]store{}, plain...), indexed...)
		for _, i := range rand.Perm(len(list)) {
			if err := b.claimInto(ctx, list[i], s4, uint64(round)); err != nil {
				return fmt.Errorf("%s: %w", list[i], err)
			}
			b.progressf("keys, round %d of %d: %s", round+1, b.rounds, list[i])
		}
	}
	var rows [][]string
	for _, s := range append(plain, indexed...) {
		name, empty := "keys/"+s.String(), "keys/"+store{timely: s.timely}.String()
		keys, _, _ := strings.Cut(s.String(), "/")
		rows = append(rows, []string{
			keys, fmt.Sprint(s.claims), s.index,
			b.report.figure("%.0f", name, "claims/s"), b.report.spread("%.0f", name, "claims/s"), b.report.ratioText(name+"/claims/s", empty+"/claims/s"),
			b.report.figure("%.0f", name, "msg/s"), b.report.spread("%.0f", name, "msg/s"), b.report.ratioText(name+"/msg/s", empty+"/msg/s"),
		})
	}
	b.report.table("Claims that are there already", []string{"keys", "claims", "index on the time", "claims/s", "min-max", "to empty", "S4 msg/s", "min-max", "to empty"}, rows,
		"claims/s: inbox.Do in groups of 64 on pgx with a handler that does nothing, no broker; each follows a CHECKPOINT, so pages are written to the log in full",
		"timely keys are UUIDv7, random ones UUIDv4; the tables grow by the claims of the rounds")
	for _, s := range plain {
		if _, err := b.world.pool.Exec(ctx, "DROP TABLE "+s.table); err != nil {
			return err
		}
	}
	return nil
}

// fill makes the table and its old claims, a hundred a second, as a service leaves them. The primary key is made afterwards,
// which is faster; for random keys with the room in its pages that splits leave there.
func (b *bench) fill(ctx context.Context, s store) error {
	if err := pgxinbox.Migrate(ctx, b.world.pool, pgxinbox.Config{Table: s.table}); err != nil {
		return err
	}
	if s.claims == 0 {
		return nil
	}
	key, room := "gen_random_uuid()::text", 70
	if s.timely {
		key, room = `substr(t.hex, 1, 8) || '-' || substr(t.hex, 9, 4) || '-7' || substr(t.md5, 1, 3) || '-8' || substr(t.md5, 4, 3) || '-' || substr(t.md5, 7, 12)`, 90
	}
	for _, statement := range []string{
		fmt.Sprintf("ALTER TABLE %s SET (autovacuum_enabled = false)", s.table),
		fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT %s_pkey", s.table, s.table),
		fmt.Sprintf(`INSERT INTO %s (consumer_name, message_key, processed_at, fingerprint) SELECT '%s', %s, t.at, decode('01' || t.md5, 'hex')
			FROM (SELECT at, lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') AS hex, md5(n::text) AS md5
				FROM (SELECT n, now() - (%d - n) * interval '10 milliseconds' AS at FROM generate_series(1, %d) n) s) t`, s.table, b.world.name, key, s.claims, s.claims),
		fmt.Sprintf("ALTER TABLE %s ADD PRIMARY KEY (consumer_name, message_key) WITH (fillfactor = %d)", s.table, room),
		"VACUUM ANALYZE " + s.table,
	} {
		if _, err := b.world.pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// claimInto measures the inbox alone and S4 on one table.
func (b *bench) claimInto(ctx context.Context, t store, s4 system, seed uint64) (err error) {
	switch {
	case t.index != "":
		index := t.table + "_at"
		if _, err := b.world.pool.Exec(ctx, fmt.Sprintf("CREATE INDEX %s ON %s USING %s (processed_at)", index, t.table, t.index)); err != nil {
			return err
		}
		defer func() {
			_, dropping := b.world.pool.Exec(context.WithoutCancel(ctx), "DROP INDEX "+index)
			err = errors.Join(err, dropping)
		}()
	case t.claims == 0:
		if _, err := b.world.pool.Exec(ctx, "TRUNCATE "+t.table); err != nil {
			return err
		}
	}
	alone := system{name: "claims", claims: sekaliTable, run: claimAlone}
	for figure, s := range map[string]system{"claims/s": alone, "msg/s": s4} {
		messages := b.messages
		if !s.broker {
			messages *= 2 // so much faster
		}
		j := b.job(s, messages, seed)
		j.Table, j.timely = t.table, t.timely
		if j.claimed, err = b.world.count(ctx, "SELECT count(*) FROM "+t.table); err != nil {
			return err
		}
		r, err := b.measure(ctx, s, j)
		if err != nil {
			return err
		}
		b.report.add(r.Rate, "keys/"+t.String(), figure)
	}
	return nil
}

// claimAlone calls the inbox from as many goroutines as router.New would.
func claimAlone(ctx context.Context, j *job) error {
	pool, err := openPgx(ctx, j, groupConnections)
	if err != nil {
		return err
	}
	defer pool.Close()
	box, err := pgxinbox.Open(ctx, pool, pgxinbox.Config{Table: j.Table, Config: j.config(group)})
	if err != nil {
		return err
	}
	if err := box.Register(ctx, inbox.Consumer{Name: j.Queue, Queue: j.Queue, KeyRule: inbox.DefaultKey.String()}); err != nil {
		return err
	}
	left := atomic.Int64{}
	left.Store(int64(j.messages))
	var goroutines errgroup.Group
	for range 2 * group {
		goroutines.Go(func() error {
			for left.Add(-1) >= 0 {
				key, err := newKey(j.timely)
				if err != nil {
					return err
				}
				claim := inbox.Claim{Consumer: j.Queue, Key: key, Fingerprint: inbox.Fingerprint([]byte(key))}
				if out, err := box.Do(ctx, claim, touch); out != inbox.Processed {
					return fmt.Errorf("claim %q: %s: %w", key, out, err)
				}
				j.settled("")
			}
			return nil
		})
	}
	if err := goroutines.Wait(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// touch is a handler that asks for its transaction and does nothing with it.
func touch(ctx context.Context) error {
	_, err := pgxinbox.Tx(ctx)
	return err
}
