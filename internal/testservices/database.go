package testservices

import (
	"context"
	"database/sql"
	"net/url"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
)

// patience bounds what the helpers themselves ask of a server.
const patience = 30 * time.Second

// NewPostgresDatabase creates an empty database on the shared PostgreSQL server and returns its URL; the database is dropped at
// the end of the test, whoever is still connected. It skips the test when there is no server.
func NewPostgresDatabase(t testing.TB) string {
	t.Helper()
	server, name := Postgres(t), Name(t)
	url := newPostgresDatabase(t, server, name)
	t.Cleanup(func() { postgresExec(t, server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	return url
}

func newPostgresDatabase(t testing.TB, server, name string) string {
	t.Helper()
	postgresExec(t, server, "CREATE DATABASE "+name)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("parse %s: %v", variables[postgres], err)
	}
	u.Path = "/" + name
	return u.String()
}

func postgresExec(t testing.TB, server, statement string) {
	t.Helper()
	// Not the test's context: it is cancelled before the cleanup functions run.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatalf("connect to the PostgreSQL of %s: %v (scripts/services status)", variables[postgres], err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// NewMariaDBDatabase creates an empty database on the shared MariaDB server and returns its data source name; the database is
// dropped at the end of the test. It skips the test when there is no server.
func NewMariaDBDatabase(t testing.TB) string {
	t.Helper()
	server, name := MariaDB(t), Name(t)
	dsn := newMariaDBDatabase(t, server, name)
	t.Cleanup(func() { mariaDBExec(t, server, "DROP DATABASE IF EXISTS "+name) })
	return dsn
}

func newMariaDBDatabase(t testing.TB, server, name string) string {
	t.Helper()
	mariaDBExec(t, server, "CREATE DATABASE "+name)
	config, err := mysql.ParseDSN(server)
	if err != nil {
		t.Fatalf("parse %s: %v", variables[mariaDB], err)
	}
	config.DBName = name
	return config.FormatDSN()
}

func mariaDBExec(t testing.TB, server, statement string) {
	t.Helper()
	config, err := mysql.ParseDSN(server)
	if err != nil {
		t.Fatalf("parse %s: %v", variables[mariaDB], err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatalf("use %s: %v", variables[mariaDB], err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	if _, err := db.ExecContext(ctx, statement); err != nil {
		t.Fatalf("%s: %v (scripts/services status)", statement, err)
	}
}
