package rabbittest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/internal/inttest/faultproxy"
	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// throughProxy gives a connection whose network can be broken.
func throughProxy(t *testing.T, c rabbit.ConnectionConfig) (*rabbit.Connection, *faultproxy.Proxy) {
	t.Helper()
	u, err := url.Parse(testservices.NewVirtualHost(t))
	if err != nil {
		t.Fatal(err)
	}
	proxy := faultproxy.New(t, u.Host)
	u.Host = proxy.Addr()
	conn, err := rabbit.NewConnection(u.String(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, proxy
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Connections are cut while messages flow both ways: every confirmed message
// arrives.
func TestNothingIsLostWhenConnectionsAreCut(t *testing.T) {
	conn, proxy := throughProxy(t, rabbit.ConnectionConfig{ReconnectMin: 10 * time.Millisecond, ReconnectMax: 200 * time.Millisecond})
	topology := &rabbit.Topology{RetrySteps: []time.Duration{}}
	sub, err := rabbit.NewSubscriber(conn, rabbit.SubscriberConfig{Concurrency: 16, Topology: topology, CloseTimeout: 5 * time.Second})
	must(t, err)
	pub, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	must(t, err)
	q := testservices.Name(t)
	msgs, err := sub.Subscribe(context.Background(), q)
	must(t, err)

	var mu sync.Mutex
	got := map[string]int{}
	var handlers sync.WaitGroup
	handlers.Go(func() {
		for m := range msgs {
			mu.Lock()
			got[m.UUID]++
			mu.Unlock()
			m.Ack()
		}
	})
	sent, unknown := 0, 0
	for round := range 48 {
		batch := make([]*message.Message, 50)
		for i := range batch {
			batch[i] = message.NewMessage(fmt.Sprint(sent+i), []byte("x"))
		}
		sent += len(batch)
		for try := 0; len(batch) > 0; try++ {
			done := make(chan []error, 1)
			go func() { done <- pub.PublishEach(context.Background(), q, batch...) }()
			if round%4 == 0 && try == 0 {
				proxy.Cut()
			}
			var again []*message.Message
			for i, err := range <-done {
				if err == nil {
					continue
				}
				if !errors.Is(err, rabbit.ErrUnknown) {
					t.Fatalf("got %v", err)
				}
				unknown++
				again = append(again, batch[i])
			}
			batch = again
		}
	}
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		mu.Lock()
		n, copies := len(got), -len(got)
		for _, k := range got {
			copies += k
		}
		mu.Unlock()
		if n == sent {
			t.Logf("%d messages, %d publishes of unknown outcome, %d copies, %+v", sent, unknown, copies, sub.Stats())
			break
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d of %d confirmed messages arrived", n, sent)
		}
	}
	must(t, sub.Close())
	handlers.Wait()
	must(t, pub.Close())
}

// A network that swallows everything gives no error of its own. Heartbeats find
// it; Close does not wait for them.
func TestBlackHole(t *testing.T) {
	states := make(chan rabbit.StateChange, 100)
	conn, proxy := throughProxy(t, rabbit.ConnectionConfig{Heartbeat: 2 * time.Second, OnState: func(c rabbit.StateChange) { states <- c }})
	q := testservices.Name(t)
	topology := &rabbit.Topology{RetrySteps: []time.Duration{}}
	sub, err := rabbit.NewSubscriber(conn, rabbit.SubscriberConfig{Topology: topology, CloseTimeout: time.Second})
	must(t, err)
	pub, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{Timeout: time.Second})
	must(t, err)
	_, err = sub.Subscribe(context.Background(), q)
	must(t, err)
	must(t, pub.Publish(q, message.NewMessage("1", nil)))

	proxy.BlackHole()
	start := time.Now()
	if err := pub.Publish(q, message.NewMessage("2", nil)); !errors.Is(err, rabbit.ErrUnknown) || time.Since(start) > 3*time.Second {
		t.Errorf("publish into the hole: %v after %s", err, time.Since(start))
	}
	noticed := time.After(15 * time.Second)
	for lost := false; !lost; {
		select {
		case c := <-states:
			lost = c.State == rabbit.Disconnected && c.Direction == rabbit.Consume
		case <-noticed:
			t.Fatal("heartbeats did not find the hole")
		}
	}
	start = time.Now()
	must(t, sub.Close())
	_ = pub.Close()
	must(t, conn.Close())
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("close took %s", took)
	}
	proxy.Heal()
}
