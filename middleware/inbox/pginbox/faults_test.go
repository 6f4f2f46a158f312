package pginbox_test

import (
	"context"
	"database/sql"
	"net/url"
	"testing"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox/inboxtest"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
)

func TestInboxUnderFaults(t *testing.T) {
	testservices.Postgres(t) // the same condition: a server of this test's own
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			server := testservices.Start(t, "postgres")
			direct := server.NewDatabase()
			proxy, proxied := proxyTo(t, direct)
			db := open(t, driver, direct)
			db.SetMaxOpenConns(1)
			if err := pginbox.Migrate(t.Context(), db, pginbox.Config{}); err != nil {
				t.Fatal(err)
			}
			inboxtest.RunFaults(t, inboxtest.Faults{
				Config: inboxtest.Config{
					Database:             func(*testing.T) inboxtest.Database { return database(db, driver, proxied, pginbox.Config{}) },
					FailedStatementDooms: true,
				},
				Network: proxy,
				Server:  postgres{server: server, db: db},
			})
		})
	}
}

// proxyTo puts a proxy before the server of a URL.
func proxyTo(t *testing.T, direct string) (proxy *inboxtest.Proxy, proxied string) {
	t.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal("parse the server's URL")
	}
	proxy = inboxtest.NewProxy(t, u.Host)
	u.Host = proxy.Addr()
	return proxy, u.String()
}

type postgres struct {
	server *testservices.Server
	db     *sql.DB
}

func (p postgres) KillBackends(ctx context.Context) error {
	_, err := p.db.ExecContext(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	return err
}

func (p postgres) Restart(t *testing.T) {
	t.Helper()
	p.server.Kill()
	p.server.Start()
	for p.db.PingContext(t.Context()) != nil && t.Context().Err() == nil {
		continue // its own pool also has to notice
	}
}
