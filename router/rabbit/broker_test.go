package rabbit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// Tests that raise the broker's alarms or change its listeners have one of their
// own. Kills of the broker are in internal/soak.
func TestOwnBroker(t *testing.T) {
	server := testservices.Start(t, "rabbitmq")
	t.Run("memory alarm", func(t *testing.T) { testAlarm(t, server) })
	t.Run("refused login", func(t *testing.T) { testRefused(t, server) })
	t.Run("TLS", func(t *testing.T) { testTLS(t, server) }) // the last: it ends the plain listener
}

func testAlarm(t *testing.T, server *testservices.Server) {
	r := newRigAt(t, server.URL())
	q := r.queue(nil)
	states := make(chan rabbit.StateChange, 100)
	conn := r.connection(rabbit.ConnectionConfig{OnState: func(c rabbit.StateChange) { states <- c }})
	pub, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{Timeout: time.Second})
	r.must(err)
	r.must(pub.Publish(q, numbered(1)...))
	sub := r.subscriber(rabbit.SubscriberConfig{Concurrency: 4})
	msgs := r.subscribe(sub, q)
	r.receive(msgs).Ack()

	server.Ctl("set_vm_memory_high_watermark", "0.0000001")
	defer server.Ctl("set_vm_memory_high_watermark", "0.6")
	// A body that no socket buffer holds: the write itself hangs.
	huge := message.NewMessage("huge", make([]byte, 32<<20))
	hang := func(want error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := pub.PublishEach(ctx, q, huge)[0]
		if !errors.Is(err, want) || time.Since(start) > 2*time.Second {
			t.Errorf("publish under the alarm: %v after %s", err, time.Since(start))
		}
	}
	hang(rabbit.ErrUnknown)
	if err := pub.PublishEach(context.Background(), q, numbered(1)...)[0]; !errors.Is(err, rabbit.ErrNotSent) {
		t.Errorf("behind a write that hangs: %v", err)
	}
	seen := false
	for len(states) > 0 {
		seen = (<-states).State == rabbit.Blocked || seen
	}
	if !seen {
		t.Error("the blocked state was not told")
	}
	server.Ctl("set_vm_memory_high_watermark", "0.6")
	r.eventually("publishing goes on when the alarm is over", func() bool { return pub.Publish(q, numbered(1)...) == nil })
	for drained := false; !drained; {
		select {
		case m := <-msgs:
			m.Ack()
		case <-time.After(300 * time.Millisecond):
			drained = true
		}
	}

	server.Ctl("set_vm_memory_high_watermark", "0.0000001")
	hang(rabbit.ErrUnknown)
	start := time.Now()
	_ = pub.Close()
	r.must(conn.Close())
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("close under the alarm took %s", took)
	}
}

func testRefused(t *testing.T, server *testservices.Server) {
	r := newRigAt(t, server.URL())
	u := server.URL()
	at := strings.LastIndex(u, "@")
	conn, err := rabbit.NewConnection("amqp://nobody:s3cret"+u[at:], rabbit.ConnectionConfig{Logger: r.log})
	r.must(err)
	defer func() { r.must(conn.Close()) }()
	sub, err := rabbit.NewSubscriber(conn, rabbit.SubscriberConfig{StartTimeout: time.Hour})
	r.must(err)
	_, err = sub.Subscribe(context.Background(), "q")
	if err == nil || !strings.Contains(err.Error(), "check user and password") {
		t.Errorf("got %v", err)
	}
	if text := r.log.text() + err.Error(); strings.Contains(text, "s3cret") {
		t.Errorf("the password was told:\n%s", text)
	}
	r.must(sub.Close())
}
