package testservices_test

import (
	"context"
	"database/sql"
	"os"
	"regexp"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/testservices"
)

func connectPostgres(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execPostgres(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func openMariaDB(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func openChannel(t *testing.T, url string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return channel
}

func TestEachTestHasAPostgresDatabaseOfItsOwn(t *testing.T) {
	for range 2 {
		conn := connectPostgres(t, testservices.NewPostgresDatabase(t))
		execPostgres(t, conn, "CREATE TABLE same_name (id int)")
	}
}

func TestEachTestHasAMariaDBDatabaseOfItsOwn(t *testing.T) {
	for range 2 {
		db := openMariaDB(t, testservices.NewMariaDBDatabase(t))
		if _, err := db.ExecContext(t.Context(), "CREATE TABLE same_name (id int)"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEachTestHasAVirtualHostOfItsOwn(t *testing.T) {
	for _, durable := range []bool{true, false} {
		channel := openChannel(t, testservices.NewVirtualHost(t))
		// The second declaration would be refused if the queue were there with the first one's arguments.
		if _, err := channel.QueueDeclare("same-name", durable, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDatabasesGoWithTheirTest(t *testing.T) {
	server := connectPostgres(t, testservices.Postgres(t))
	var name string
	t.Run("inner", func(t *testing.T) {
		conn := connectPostgres(t, testservices.NewPostgresDatabase(t))
		name = conn.Config().Database
		// A connection that the test forgot must not keep the database.
		if _, err := pgx.Connect(t.Context(), conn.Config().ConnString()); err != nil {
			t.Fatal(err)
		}
	})
	var left int
	if err := server.QueryRow(t.Context(), "SELECT count(*) FROM pg_database WHERE datname = $1", name).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left != 0 {
		t.Errorf("database %q is still there", name)
	}
}

func TestKilledPostgresKeepsWhatWasCommitted(t *testing.T) {
	server := testservices.Start(t, "postgres")
	url := server.NewDatabase()
	conn := connectPostgres(t, url)
	execPostgres(t, conn, "CREATE TABLE kept (id int)")
	execPostgres(t, conn, "INSERT INTO kept VALUES (1)")
	execPostgres(t, conn, "BEGIN")
	execPostgres(t, conn, "INSERT INTO kept VALUES (2)")

	server.Kill()
	if _, err := conn.Exec(t.Context(), "COMMIT"); err == nil {
		t.Error("the killed server answered")
	}
	server.Start()

	var rows int
	if err := connectPostgres(t, url).QueryRow(t.Context(), "SELECT count(*) FROM kept").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if rows != 1 {
		t.Errorf("%d rows after the crash, want the committed one", rows)
	}
	// A killed server leaves no second one beside the new one, and the log tells of the crash.
	log, err := os.ReadFile(server.Log())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), "was not properly shut down") {
		t.Errorf("the log does not tell of the crash:\n%s", log)
	}
}

func TestStoppedPostgresRefusesConnectionsUntilItIsStarted(t *testing.T) {
	server := testservices.Start(t, "postgres")
	server.Stop()
	if _, err := pgx.Connect(t.Context(), server.URL()); err == nil {
		t.Error("the stopped server took a connection")
	}
	server.Start()
	connectPostgres(t, server.URL())
	server.Restart()
	connectPostgres(t, server.URL())
}

func TestKilledMariaDBKeepsWhatWasCommitted(t *testing.T) {
	server := testservices.Start(t, "mariadb")
	dsn := server.NewDatabase()
	db := openMariaDB(t, dsn)
	for _, statement := range []string{"CREATE TABLE kept (id int) ENGINE=InnoDB", "INSERT INTO kept VALUES (1)"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	server.Kill()
	if err := openMariaDB(t, dsn).PingContext(t.Context()); err == nil {
		t.Error("the killed server answered")
	}
	server.Start()
	var rows int
	if err := openMariaDB(t, dsn).QueryRowContext(t.Context(), "SELECT count(*) FROM kept").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if rows != 1 {
		t.Errorf("%d rows after the crash, want the committed one", rows)
	}
}

func TestKilledRabbitMQKeepsConfirmedMessages(t *testing.T) {
	server := testservices.Start(t, "rabbitmq")
	channel := openChannel(t, server.URL())
	if _, err := channel.QueueDeclare("kept", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(t.Context(), "", "kept", true, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("order")})
	if err != nil {
		t.Fatal(err)
	}
	if acked, err := confirmation.WaitContext(t.Context()); err != nil || !acked {
		t.Fatalf("confirm: %v, %v", acked, err)
	}
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))

	server.Kill()
	<-closed
	server.Start()

	message, ok, err := openChannel(t, server.URL()).Get("kept", true)
	if err != nil || !ok || string(message.Body) != "order" {
		t.Errorf("after the crash: %q, %v, %v", message.Body, ok, err)
	}
	if hosts := server.Ctl("-q", "list_vhosts", "--no-table-headers"); strings.TrimSpace(hosts) != "/" {
		t.Errorf("rabbitmqctl list_vhosts printed %q", hosts)
	}
}

func TestNamesFitEveryServer(t *testing.T) {
	fits := regexp.MustCompile(`^[a-z0-9_]{1,48}$`)
	t.Run("a rather long name/with Odd Ünïcode characters, which servers would quote", func(t *testing.T) {
		one, other := testservices.Name(t), testservices.Name(t)
		if !fits.MatchString(one) {
			t.Errorf("name %q", one)
		}
		if one == other {
			t.Errorf("two names are both %q", one)
		}
	})
}
