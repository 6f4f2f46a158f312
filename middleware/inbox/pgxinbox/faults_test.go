package pgxinbox_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox/inboxtest"
	"github.com/sekali-mq/sekali/middleware/inbox/pgxinbox"
)

func TestInboxUnderFaults(t *testing.T) {
	testservices.Postgres(t) // the same condition: a server of this test's own
	server := testservices.Start(t, "postgres")
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			direct := server.NewDatabase()
			proxy, proxied := proxyTo(t, direct)
			pool := connect(t, direct, mode, 1)
			migrate(t, pool, pgxinbox.Config{})
			inboxtest.RunFaults(t, inboxtest.Faults{
				Config: inboxtest.Config{
					Database:             func(*testing.T) inboxtest.Database { return database(pool, proxied, mode, pgxinbox.Config{}) },
					FailedStatementDooms: true,
				},
				Network: proxy,
				Server:  postgres{server: server, pool: pool},
			})
		})
	}
	quiet(t, server, "connection to client lost", "terminating connection due to administrator command")
}

// quiet fails the test when the server was asked something in an aborted
// transaction, and when its log does not hold one of the lines that were
// provoked: then it is not the log.
func quiet(t *testing.T, server *testservices.Server, provoked ...string) {
	t.Helper()
	log, err := os.ReadFile(server.Log())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(provoked, func(line string) bool { return strings.Contains(string(log), line) }) {
		t.Errorf("the log has none of %q", provoked)
	}
	if n := strings.Count(string(log), "current transaction is aborted"); n > 0 {
		t.Errorf("%d statements were sent in an aborted transaction (25P02)", n)
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
	// As pgx names what its connections prepare.
	digest := sha256.Sum256([]byte("commit"))
	proxy.Prepared("COMMIT", "stmtcache_"+hex.EncodeToString(digest[:24]))
	u.Host = proxy.Addr()
	return proxy, u.String()
}

type postgres struct {
	server *testservices.Server
	pool   *pgxpool.Pool
}

func (p postgres) KillBackends(ctx context.Context) error {
	_, err := p.pool.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	return err
}

func (p postgres) Restart(t *testing.T) {
	t.Helper()
	p.server.Kill()
	p.server.Start()
	p.pool.Reset()
	for p.pool.Ping(t.Context()) != nil && t.Context().Err() == nil {
		continue // it takes connections, and yet may still recover
	}
}
