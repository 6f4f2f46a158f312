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

// KillBackends ends all other connections of the database, those that wait for a
// lock first: else one of them gets it before its turn comes. KILL only asks; it
// returns when they are gone.
func (m mariaDB) KillBackends(ctx context.Context) error {
	const others = "FROM information_schema.PROCESSLIST p LEFT JOIN information_schema.INNODB_TRX t ON t.trx_mysql_thread_id = p.ID WHERE p.DB = DATABASE() AND p.ID <> CONNECTION_ID()"
	for {
		var id int64
		err := m.db.QueryRowContext(ctx, "SELECT p.ID "+others+" ORDER BY t.trx_state = 'LOCK WAIT' DESC LIMIT 1").Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := m.db.ExecContext(ctx, fmt.Sprintf("KILL %d", id)); err != nil {
			if e, ok := errors.AsType[*mysql.MySQLError](err); !ok || e.Number != noSuchThread {
				return err
			}
		}
		for gone := 0; gone == 0; {
			if err := m.db.QueryRowContext(ctx, "SELECT NOT EXISTS (SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = ?)", id).Scan(&gone); err != nil {
				return err
			}
		}
	}
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
