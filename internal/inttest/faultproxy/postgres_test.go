package faultproxy_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sekali-mq/sekali/internal/inttest/faultproxy"
	"github.com/sekali-mq/sekali/internal/testservices"
)

// throughPostgres returns a proxy to a database with an empty table orders, its URL through the proxy, and a connection beside.
func throughPostgres(t *testing.T) (*faultproxy.Proxy, string, *pgx.Conn) {
	t.Helper()
	u, err := url.Parse(testservices.NewPostgresDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	beside := connect(t, u.String())
	exec(t, beside, "CREATE TABLE orders (id int PRIMARY KEY)")
	proxy := faultproxy.New(t, u.Host)
	u.Host = proxy.Addr()
	return proxy, u.String(), beside
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// insertOrder commits one order and returns the error of the commit.
func insertOrder(t *testing.T, conn *pgx.Conn) error {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "INSERT INTO orders VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	return tx.Commit(t.Context())
}

// orders counts after taking the lock that an open transaction still holds, so that a rollback has really happened.
func orders(t *testing.T, conn *pgx.Conn) int {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "LOCK TABLE orders IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRow(t.Context(), "SELECT count(*) FROM orders").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLostCommitRequestRollsBack(t *testing.T) {
	proxy, url, beside := throughPostgres(t)
	conn := connect(t, url)
	proxy.LoseRequest("COMMIT", 1)
	if err := insertOrder(t, conn); err == nil {
		t.Error("the commit returned no error")
	}
	if n := orders(t, beside); n != 0 {
		t.Errorf("%d orders, want none", n)
	}
}

func TestLostCommitAnswerLeavesTheCommit(t *testing.T) {
	proxy, url, beside := throughPostgres(t)
	conn := connect(t, url)
	proxy.LoseAnswer("COMMIT", 1)
	if err := insertOrder(t, conn); err == nil {
		t.Error("the commit returned no error")
	}
	if n := orders(t, beside); n != 1 {
		t.Errorf("%d orders, want one", n)
	}
}

func TestRoundTripsOfATransaction(t *testing.T) {
	proxy, url, _ := throughPostgres(t)
	conn := connect(t, url)
	before := proxy.RoundTrips()
	for _, statement := range []string{"BEGIN", "INSERT INTO orders VALUES (1)", "COMMIT"} {
		exec(t, conn, statement) // without arguments pgx sends one simple query
	}
	if n := proxy.RoundTrips() - before; n != 3 {
		t.Errorf("%d round trips for BEGIN, INSERT and COMMIT, want 3", n)
	}
	before = proxy.RoundTrips()
	var batch pgx.Batch
	for range 5 {
		batch.Queue("SELECT 1")
	}
	if err := conn.SendBatch(t.Context(), &batch).Close(); err != nil {
		t.Fatal(err)
	}
	// pgx prepares what it does not know yet, then sends all five together.
	if n := proxy.RoundTrips() - before; n != 2 {
		t.Errorf("%d round trips for a batch of five, want 2", n)
	}
}
