package router_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/router"
	"github.com/sekali-mq/sekali/router/rabbit"
)

func TestMissingQueueIsRefused(t *testing.T) {
	r := newRig(t)
	err := r.refused(r.service(r.box("test", 2, new(events)), router.Config{}, effect))
	if !errors.Is(err, rabbit.ErrNoQueue) {
		t.Errorf("%v is not ErrNoQueue", err)
	}
	r.says(err.Error(), queue, "create it", "Topology")
	if n := r.count("SELECT count(*) FROM sekali_consumers"); n != 0 {
		t.Errorf("%d consumers registered for a queue that is not there", n)
	}
}

func TestMissingDLQIsRefused(t *testing.T) {
	r := newRig(t)
	r.declare(queue)
	err := r.refused(r.service(r.box("test", 2, new(events)), router.Config{}, effect))
	if !errors.Is(err, rabbit.ErrNoQueue) {
		t.Errorf("%v is not ErrNoQueue", err)
	}
	r.says(err.Error(), rabbit.DeadLetterQueue(queue), "letters need a queue", "Topology")
}

// Without retry queues a failing message is a letter after the in-place bound,
// and that is said before the first one.
func TestMissingRetryQueuesSwitchDelayedRetryOff(t *testing.T) {
	r := newRig(t)
	r.declare(queue, rabbit.DeadLetterQueue(queue))
	var e events
	r.start(r.box("test", 2, &e), router.Config{Stack: middleware.StackConfig{InPlace: 300 * time.Millisecond}}, func(*message.Message) error { return errHandler })
	r.says(r.logged("delayed retry is off"), queue, "letter")
	r.send(event("event", "effect"))
	d := r.letter()
	reason, _ := d.Headers["sekali-reason"].(string)
	r.says(reason, "there is no delayed retry", errHandler.Error())
	if n := e.total(); n < 2 || n > 10 {
		t.Errorf("%d runs, want a few", n)
	}
	r.effects(0)
}

// Two owners of one name would take each other's messages for duplicates.
func TestConsumerNameOfAnotherServiceOrQueueIsRefused(t *testing.T) {
	r := newRig(t)
	named := router.Config{Topology: quick(), Stack: middleware.StackConfig{Config: middleware.Config{Consumer: "stock"}}}
	r.start(r.box("shop", 2, new(events)), named, effect)

	for _, other := range []struct {
		what, service, topic string
		words                []string
	}{
		{"another service", "warehouse", queue, []string{`"stock"`, `service "shop"`, `service "warehouse"`, "another name"}},
		{"another queue", "shop", "orders.warehouse", []string{`"stock"`, `queue "orders.stock"`, `queue "orders.warehouse"`, "another name"}},
		{"both", "warehouse", "orders.warehouse", []string{`"stock"`, "another name"}},
	} {
		t.Run(other.what, func(t *testing.T) {
			svc, err := router.New(r.broker, r.box(other.service, 2, new(events)), named)
			r.must(err)
			r.must(svc.Handle(other.topic, effect))
			err = r.refused(svc)
			r.config(err)
			r.says(err.Error(), other.words...)
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is more than one sentence", err)
			}
		})
	}
}

func TestMissingTablesAreToldWithTheFix(t *testing.T) {
	r := newRig(t)
	r.exec("DROP TABLE processed_messages")
	_, err := pginbox.Open(t.Context(), r.db, pginbox.Config{})
	r.config(err)
	r.says(err.Error(), "processed_messages", "Migrate")

	r.must(pginbox.Migrate(t.Context(), r.db, pginbox.Config{}))
	r.exec("DROP TABLE IF EXISTS processed_messages, sekali_consumers, sekali_migrations")
	_, err = pginbox.Open(t.Context(), r.db, pginbox.Config{})
	r.config(err)
	r.says(err.Error(), "Migrate")
}

func TestDatabaseThatIsAwayAtStartIsToldWithTheFix(t *testing.T) {
	r := newRig(t)
	u, err := url.Parse(r.database)
	r.must(err)
	password, _ := u.User.Password()
	u.Host = closedPort(r)
	db, err := sql.Open("postgres", u.String())
	r.must(err)
	defer db.Close()
	_, err = pginbox.Open(t.Context(), db, pginbox.Config{})
	if err == nil || inbox.ClassOf(err) != inbox.ClassDown {
		t.Fatalf("class %s, want down: %v", inbox.ClassOf(err), err)
	}
	if strings.Contains(err.Error(), password) {
		t.Errorf("%q repeats the password", err)
	}
	t.Log(err)
}

func TestBrokerThatIsNotThereIsToldWithoutCredentials(t *testing.T) {
	r := newRig(t)
	u, err := url.Parse(r.broker)
	r.must(err)
	password, _ := u.User.Password()
	for name, c := range map[string]struct {
		change  func(u *url.URL)
		timeout time.Duration
		words   []string
	}{
		"down": {func(u *url.URL) { u.Host = closedPort(r) }, time.Second, []string{"connect to 127.0.0.1:", "refused"}},
		// Told at once; the broker takes its time to answer.
		"wrong password": {func(u *url.URL) { u.User = url.UserPassword("sekali", "wrong-secret") }, patience, []string{"check user and password"}},
		"wrong vhost":    {func(u *url.URL) { u.Path = "/nowhere" }, patience, []string{"check that the virtual host exists", "nowhere"}},
	} {
		t.Run(name, func(t *testing.T) {
			u := *u
			c.change(&u)
			log := &recorder{changed: make(chan struct{})}
			svc, err := router.New(u.String(), r.box("test", 2, new(events)), router.Config{StartTimeout: c.timeout, Logger: log.logger()})
			r.must(err)
			r.must(svc.Handle(queue, effect))
			err = r.refused(svc)
			r.says(err.Error(), c.words...)
			if strings.Contains(log.String(), "trying again") != (name == "down") {
				t.Errorf("the log does not tell whether it is tried again:\n%s", log)
			}
			for _, text := range []string{err.Error(), log.String()} {
				if strings.Contains(text, password) || strings.Contains(text, "wrong-secret") {
					t.Errorf("%q repeats the password", text)
				}
			}
		})
	}
}

// A service that is stopped while it still waits for its broker stops.
func TestRunEndsWithItsContextWhileItWaitsForTheBroker(t *testing.T) {
	r := newRig(t)
	svc, err := router.New("amqp://"+closedPort(r), r.box("test", 2, new(events)), router.Config{Logger: r.log.logger()})
	r.must(err)
	r.must(svc.Handle(queue, effect))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	r.logged("Not connected to RabbitMQ")
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%v, want nil as after any other end", err)
		}
	case <-time.After(15 * time.Second):
		t.Error("still waiting for the broker")
	}
}

// closedPort is an address on which nobody listens.
func closedPort(r *rig) string {
	r.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	r.must(err)
	defer l.Close()
	return l.Addr().String()
}
