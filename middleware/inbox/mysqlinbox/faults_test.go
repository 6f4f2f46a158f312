package mysqlinbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox/inboxtest"
)

func TestInboxUnderFaults(t *testing.T) {
	testservices.MariaDB(t) // the same condition: a server of this test's own
	for _, v := range variants[:4] {
		t.Run(v.name, func(t *testing.T) {
			server := testservices.Start(t, "mariadb")
			direct := server.NewDatabase()
			proxy, proxied := proxyTo(t, direct)
			inboxtest.RunFaults(t, inboxtest.Faults{
				Config: inboxtest.Config{
					Database: func(t *testing.T) inboxtest.Database { return v.database(t, direct, proxied) },
				},
				Network: proxy,
				Server:  mariaDB{server: server, db: openDB(t, direct)},
			})
		})
	}
}

// proxyTo puts a proxy before the server of a data source name.
func proxyTo(t *testing.T, direct string) (proxy *inboxtest.Proxy, proxied string) {
	t.Helper()
	c, err := mysql.ParseDSN(direct)
	if err != nil {
		t.Fatal("parse the server's name")
	}
	proxy = inboxtest.NewProxy(t, c.Addr)
	c.Addr = proxy.Addr()
	return proxy, c.FormatDSN()
}

type mariaDB struct {
	server *testservices.Server
	db     *sql.DB
}

// KillBackends ends all other connections of the database.
func (m mariaDB) KillBackends(ctx context.Context) (err error) {
	rows, err := m.db.QueryContext(ctx, "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID()")
	if err != nil {
		return err
	}
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return errors.Join(err, rows.Close())
		}
		ids = append(ids, id)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, id := range ids {
		var e *mysql.MySQLError
		if _, err := m.db.ExecContext(ctx, fmt.Sprintf("KILL %d", id)); errors.As(err, &e) && e.Number == noSuchThread {
			continue // it ended by itself
		} else if err != nil {
			return err
		}
	}
	return nil
}

const noSuchThread = 1094

// Restart implements inboxtest.Server.
func (m mariaDB) Restart(t *testing.T) {
	t.Helper()
	m.server.Kill()
	m.server.Start()
	// Its own pool also has to notice.
	for m.db.PingContext(t.Context()) != nil && t.Context().Err() == nil {
		continue
	}
}
