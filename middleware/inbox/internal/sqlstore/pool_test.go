package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"log/slog"
	"strings"
	"testing"
)

// A pool that closes connections and opens them again is noticed and said, once.
// One that keeps them, and one that keeps none because a pool of the driver's own
// lies below, is not.
func TestPoolThatClosesItsConnections(t *testing.T) {
	const atOnce = 4
	for idle, want := range map[int]int{2: 1, atOnce: 0, -1: 0} {
		db := sql.OpenDB(connector{})
		db.SetMaxIdleConns(idle)
		var log bytes.Buffer
		s := New(db, &Dialect{}, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for range 3 * churnStep / atOnce {
			conns := make([]*sql.Conn, atOnce)
			for i := range conns {
				var err error
				if conns[i], err = db.Conn(t.Context()); err != nil {
					t.Fatal(err)
				}
				s.watchPool()
			}
			for _, c := range conns {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := strings.Count(log.String(), "SetMaxIdleConns"); got != want {
			t.Errorf("idle limit %d: said %d times, want %d", idle, got, want)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// connector gives connections to nothing: the pool of database/sql is what is
// looked at, no statement is sent.
type connector struct{}

func (connector) Connect(context.Context) (driver.Conn, error) { return nothing{}, nil }
func (connector) Driver() driver.Driver                        { return nil }

type nothing struct{ driver.Conn }

func (nothing) Close() error { return nil }
