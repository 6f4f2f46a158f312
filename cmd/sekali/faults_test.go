package main

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/sekali-mq/sekali/internal/testservices"
)

// words of Go and of its drivers that an operator cannot do anything with.
var goWords = regexp.MustCompile(`\w+\.(Config|Error|Open|Migrate|Schema|DB|Conn)\b|goroutine|panic|dial tcp|0x[0-9a-f]{6,}|\*\w+\.\w+|pq:|driver:|context deadline exceeded`)

// sentence is one line that names the fix.
func (r result) sentence(exit int, words ...string) {
	r.t.Helper()
	r.wants(exit, words...)
	text := strings.TrimSuffix(r.errText, "\n")
	if strings.Contains(text, "\n") || !strings.HasPrefix(text, "sekali: ") {
		r.t.Errorf("not one sentence: %q", text)
	}
	if found := goWords.FindString(text); found != "" {
		r.t.Errorf("%q in %q", found, text)
	}
}

func changed(t *testing.T, raw string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

func TestAWrongPostgresIsOneSentenceWithTheFix(t *testing.T) {
	dsn := testservices.NewPostgresDatabase(t)
	c := caller{t: t}
	stats := func(dsn string) result { return c.call("inbox", "stats", "--timeout", "5s", "--inbox", "stock="+dsn) }

	stats(dsn).sentence(exitFailed, `table "processed_messages" does not exist`, `run "sekali inbox migrate"`)
	stats(changed(t, dsn, func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "wrong-password") })).
		sentence(exitFailed, "login refused: check user and password")
	stats(changed(t, dsn, func(u *url.URL) { u.Path = "/no_such_database" })).
		sentence(exitFailed, "there is no such database: check the name at the end of the URL")
	stats(changed(t, dsn, func(u *url.URL) { u.Host = "127.0.0.1:1" })).
		sentence(exitFailed, "PostgreSQL at 127.0.0.1:1/", "(--inbox stock)", "nothing listens there", "check that the server is up")
	stats(changed(t, dsn, func(u *url.URL) { u.Host = "no-such-host.invalid:5432" })).
		sentence(exitFailed, "the host no-such-host.invalid is not known")

	// A user who may log in and no more.
	c.call("inbox", "migrate", "--inbox", "stock="+dsn).wants(exitDone)
	s := &shop{t: t, dsn: dsn, caller: c}
	s.connect()
	role := testservices.Name(t)
	s.exec("CREATE ROLE " + role + " LOGIN PASSWORD 'only-looking'")
	t.Cleanup(func() { s.exec("DROP ROLE " + role) })
	looking := changed(t, dsn, func(u *url.URL) { u.User = url.UserPassword(role, "only-looking") })
	stats(looking).sentence(exitFailed, "GRANT SELECT, INSERT, UPDATE, DELETE ON")
	c.call("dlq", "list", "--db", looking).sentence(exitFailed, "there is no table sekali_dead_letters (or this user may not read it)", `run "sekali dlq migrate"`)
	c.call("inbox", "migrate", "--inbox", "stock="+looking).wants(exitFailed, "permission denied")
}

func TestAWrongMySQLIsOneSentenceWithTheFix(t *testing.T) {
	dsn := testservices.NewMariaDBDatabase(t)
	c := caller{t: t}
	stats := func(change func(*mysql.Config)) result {
		config, err := mysql.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		change(config)
		return c.call("inbox", "stats", "--timeout", "5s", "--inbox", "stock="+config.FormatDSN())
	}
	stats(func(*mysql.Config) {}).sentence(exitFailed, "does not exist for this user", `run "sekali inbox migrate"`)
	stats(func(m *mysql.Config) { m.Passwd = "wrong-password" }).sentence(exitFailed, "login refused: check user and password")
	stats(func(m *mysql.Config) { m.DBName = "no_such_database" }).sentence(exitFailed, "database")
	stats(func(m *mysql.Config) { m.Addr = "127.0.0.1:1" }).
		sentence(exitFailed, "MySQL at 127.0.0.1:1/", "nothing listens there", "check that the server is up")
	stats(func(m *mysql.Config) { m.Addr = "no-such-host.invalid:3306" }).sentence(exitFailed, "the host no-such-host.invalid is not known")
}

func TestAWrongSQLiteFileIsOneSentenceWithTheFix(t *testing.T) {
	dir := t.TempDir()
	c := caller{t: t}
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	c.call("inbox", "stats", "--inbox", filepath.Join(dir, "no.db")).sentence(exitFailed, "there is no such file: check the path")
	c.call("inbox", "stats", "--inbox", dir).sentence(exitFailed, "this is a directory")
	c.call("inbox", "stats", "--inbox", text).sentence(exitFailed, "the file is no SQLite database")
	if _, err := os.Stat(filepath.Join(dir, "no.db")); err == nil {
		t.Error("a wrong path made a file")
	}
	c.call("inbox", "migrate", "--inbox", filepath.Join(dir, "no", "such", "x.db")).sentence(exitFailed, "check the path")
}

func TestAWrongBrokerIsOneSentenceWithTheFix(t *testing.T) {
	s := newShop(t, places[0])
	s.call("dlq", "migrate").wants(exitDone)
	host := testservices.NewVirtualHost(t)
	collect := func(url string) result {
		return s.call("dlq", "collect", "no.such.dlq", "--until-empty", "--timeout", "5s", "--amqp", url)
	}
	collect(host).sentence(exitFailed, `there is no queue "no.such.dlq"`, "check its name")
	collect(changed(t, host, func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "wrong-password") })).
		sentence(exitFailed, "login refused: check user and password")
	collect(changed(t, host, func(u *url.URL) { u.Path = "/no-such-host" })).
		sentence(exitFailed, "the virtual host does not exist, or this user may not use it")
	collect(changed(t, host, func(u *url.URL) { u.Host = "127.0.0.1:1" })).
		sentence(exitFailed, "RabbitMQ at 127.0.0.1:1/", "nothing listens there")
	collect(changed(t, host, func(u *url.URL) { u.Host = "no-such-host.invalid" })).
		sentence(exitFailed, "the host no-such-host.invalid is not known")
	collect("http://u:pass-word@h/").wants(exitUsage, "--amqp: URL must begin with amqp://")
	collect("amqp://u:pass/word@h/").wants(exitUsage, "must be percent-encoded")
	s.call("dlq", "collect", "x").wants(exitUsage, "which broker? Give --amqp URL, or set SEKALI_AMQP_URL")
}

// listen returns the address of a server that takes connections and does what
// serve says with them.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { l.Close(); all.Wait() })
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { defer conn.Close(); serve(conn) })
		}
	})
	return l.Addr().String()
}

func TestAServerThatDoesNotAnswerIsOneSentenceAndNoWait(t *testing.T) {
	s := newShop(t, places[0])
	s.call("dlq", "migrate").wants(exitDone)
	end := make(chan struct{})
	silent := listen(t, func(net.Conn) { <-end })
	defer close(end)
	stats := func(dsn string) result { return s.call("inbox", "stats", "--timeout", "1s", "--inbox", "stock="+dsn) }
	collect := func(address string) result {
		return s.call("dlq", "collect", "x", "--timeout", "1s", "--amqp", "amqp://u:pass-word@"+address+"/")
	}
	for _, dsn := range []string{"postgres://u:pass-word@" + silent + "/shop", "u:pass-word@tcp(" + silent + ")/shop"} {
		stats(dsn).sentence(exitFailed, "no answer in time: check host, port and firewalls, or give it longer with --timeout")
	}
	collect(silent).sentence(exitFailed, "no answer in time")

	hasty := listen(t, func(net.Conn) {})
	for _, dsn := range []string{"postgres://u:pass-word@" + hasty + "/shop?sslmode=disable", "u:pass-word@tcp(" + hasty + ")/shop"} {
		stats(dsn).sentence(exitFailed, "the server closed the connection: check that this is the right port")
	}
	collect(hasty).sentence(exitFailed, "the server closed the connection")
}
