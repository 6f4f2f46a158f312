package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// Tests that stop the broker or raise its alarms have one of their own.
func TestOwnBroker(t *testing.T) {
	server := testservices.Start(t, "rabbitmq")
	t.Run("memory alarm", func(t *testing.T) { testAlarm(t, server) })
	t.Run("killed", func(t *testing.T) { testKilled(t, server) })
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

func testKilled(t *testing.T, server *testservices.Server) {
	r := newRigAt(t, server.URL())
	q := testservices.Name(t)
	topology := &rabbit.Topology{RetrySteps: []time.Duration{}}
	conn := r.connection(rabbit.ConnectionConfig{ReconnectMax: time.Second})
	pub, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{Timeout: 20 * time.Second})
	r.must(err)
	defer func() { r.must(pub.Close()) }()
	sub, err := rabbit.NewSubscriber(conn, rabbit.SubscriberConfig{Concurrency: 32, Topology: topology, Logger: r.log})
	r.must(err)
	msgs := r.subscribe(sub, q)

	var mu sync.Mutex
	got := map[string]int{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m := range msgs {
			mu.Lock()
			got[m.UUID]++
			mu.Unlock()
			m.Ack()
		}
	}()
	killed := make(chan struct{})
	unknown, n := 0, 0
	round := func() {
		batch := make([]*message.Message, 50)
		for j := range batch {
			batch[j] = message.NewMessage(fmt.Sprint(n+j), []byte("x"))
		}
		n += len(batch)
		for len(batch) > 0 {
			var again []*message.Message
			for j, err := range pub.PublishEach(context.Background(), q, batch...) {
				if err == nil {
					continue
				}
				if !errors.Is(err, rabbit.ErrUnknown) && !errors.Is(err, rabbit.ErrNotSent) {
					t.Fatalf("got %v", err)
				}
				unknown++
				again = append(again, batch[j])
			}
			batch = again
		}
	}
	for range 10 {
		round()
	}
	go func() { defer close(killed); server.Kill(); server.Start() }()
	for running := true; running; {
		round()
		select {
		case <-killed:
			running = false
		default:
		}
	}
	for range 10 {
		round()
	}
	r.eventually("every confirmed message arrives", func() bool { mu.Lock(); defer mu.Unlock(); return len(got) == n })
	copies := 0
	mu.Lock()
	for _, k := range got {
		copies += k - 1
	}
	mu.Unlock()
	t.Logf("%d messages, %d publishes of unknown outcome, %d copies delivered, stats %+v", n, unknown, copies, sub.Stats())
	r.must(sub.Close())
	<-done
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
