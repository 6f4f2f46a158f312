package testservices

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// The services, under the names that scripts/services knows.
const (
	postgres = "postgres"
	mariaDB  = "mariadb"
	rabbitMQ = "rabbitmq"
)

// variables name the URLs in the environment.
var variables = map[string]string{
	postgres: "SEKALI_POSTGRES_URL",
	mariaDB:  "SEKALI_MARIADB_DSN",
	rabbitMQ: "SEKALI_RABBITMQ_URL",
}

// managementVariable holds the URL of RabbitMQ's management API, with the credentials in it.
const managementVariable = "SEKALI_RABBITMQ_MANAGEMENT_URL"

// Postgres returns the URL of the shared PostgreSQL server, or skips the test. The database in it is shared too: a test that
// writes takes NewPostgresDatabase.
func Postgres(t testing.TB) string {
	t.Helper()
	return need(t, variables[postgres])
}

// MariaDB returns the data source name of the shared MariaDB server, in the form of github.com/go-sql-driver/mysql, or skips
// the test. A test that writes takes NewMariaDBDatabase.
func MariaDB(t testing.TB) string {
	t.Helper()
	return need(t, variables[mariaDB])
}

// RabbitMQ returns the URL of the shared broker's default virtual host, or skips the test. A test that declares anything
// takes NewVirtualHost.
func RabbitMQ(t testing.TB) string {
	t.Helper()
	return need(t, variables[rabbitMQ])
}

// RabbitMQManagement returns the URL of the shared broker's management API, with the credentials in it, or skips the test.
func RabbitMQManagement(t testing.TB) string {
	t.Helper()
	return need(t, managementVariable)
}

// need skips the test when the variable is not set.
func need(t testing.TB, variable string) string {
	t.Helper()
	value := os.Getenv(variable)
	if value == "" {
		t.Skipf(`%s is not set: run "make test", or scripts/services up && eval "$(scripts/services env)"`, variable)
	}
	return value
}

// Name returns a name that no other test and no other run uses: for queues, exchanges, databases and consumers. It begins with
// part of the test's name, for those who look at a server's lists, and is at most 48 bytes of a-z, 0-9 and "_".
func Name(t testing.TB) string {
	t.Helper()
	readable := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		default:
			return '_'
		}
	}, t.Name())
	const most = 36
	if len(readable) > most {
		readable = readable[:most]
	}
	return readable + "_" + token()
}

func token() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
