package rabbittest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// raceDetector tells whether this test was built with it.
var raceDetector bool

// Watermill's own acceptance suite, with messages handed out side by side and
// the broker restarted under way. The test with the restart is left out under the
// race detector, which finds fault with the suite itself: its TestReconnect
// collects what it has sent in one goroutine and reads it in another. Restarts
// under the race detector are in internal/soak.
func TestWatermillSuite(t *testing.T) {
	var url string
	features := tests.Features{ConsumerGroups: true, Persistent: true}
	if raceDetector {
		url = testservices.NewVirtualHost(t)
	} else {
		url, features.RestartServiceCommand = restartable(t)
	}
	bed := suiteBed(url, "quorum", rabbit.SubscriberConfig{Concurrency: 32})
	tests.TestPubSub(t, features, ofGroup("test", bed), bed)
}

// And with one message at a time, which keeps the queue's order, on classic
// queues.
func TestWatermillSuiteInOrder(t *testing.T) {
	bed := suiteBed(testservices.NewVirtualHost(t), "classic", rabbit.SubscriberConfig{Concurrency: 1, Prefetch: 16})
	tests.TestPubSub(t, tests.Features{
		ConsumerGroups: true, Persistent: true, GuaranteedOrder: true, GuaranteedOrderWithSingleSubscriber: true,
	}, ofGroup("test", bed), bed)
}

func ofGroup(group string, bed tests.ConsumerGroupPubSubConstructor) tests.PubSubConstructor {
	return func(t *testing.T) (message.Publisher, message.Subscriber) { return bed(t, group) }
}

// suiteBed gives each constructor call a connection of its own, as processes
// have. The suite nacks some messages a hundred times: so there is no delivery
// limit, and the pause before a return is short.
func suiteBed(url, queueType string, c rabbit.SubscriberConfig) tests.ConsumerGroupPubSubConstructor {
	return func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
		conn, err := rabbit.NewConnection(url, rabbit.ConnectionConfig{ReconnectMax: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		c := c
		c.Topics = rabbit.PubSub(group)
		c.Topology = &rabbit.Topology{QueueType: queueType, DeliveryLimit: -1, RetrySteps: []time.Duration{}, DeadLetterQueue: func(string) string { return "" }}
		c.RequeueMin, c.RequeueMax = time.Millisecond, 10*time.Millisecond
		c.CloseTimeout = 5 * time.Second
		pub, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{Topics: c.Topics, Topology: c.Topology})
		if err != nil {
			t.Fatal(err)
		}
		sub, err := rabbit.NewSubscriber(conn, c)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(t.Name(), "/TestReconnect/") {
			return pub, sub
		}
		sent := &confirmed{waiting: make(map[string]chan struct{})}
		return notingPublisher{pub, sent}, patientSubscriber{sub, sent}
	}
}

// confirmed holds a received message back until its publisher knows of it. The
// suite's TestReconnect counts messages when it has received all, and notes one
// as sent only after Publish has returned; here the consumer is often faster
// than the confirm.
type confirmed struct {
	mu      sync.Mutex
	waiting map[string]chan struct{} // closed when confirmed
}

func (c *confirmed) of(uuid string) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[uuid] == nil {
		c.waiting[uuid] = make(chan struct{})
	}
	return c.waiting[uuid]
}

// note gives the suite a moment to note it too.
func (c *confirmed) note(msgs []*message.Message) {
	time.AfterFunc(100*time.Millisecond, func() {
		for _, m := range msgs {
			close(c.of(m.UUID))
		}
	})
}

type notingPublisher struct {
	*rabbit.Publisher
	sent *confirmed
}

func (p notingPublisher) Publish(topic string, msgs ...*message.Message) error {
	err := p.Publisher.Publish(topic, msgs...)
	if err == nil {
		p.sent.note(msgs)
	}
	return err
}

type patientSubscriber struct {
	*rabbit.Subscriber
	sent *confirmed
}

func (s patientSubscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	in, err := s.Subscriber.Subscribe(ctx, topic)
	if err != nil {
		return nil, err
	}
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for msg := range in {
			select {
			case <-s.sent.of(msg.UUID):
			case <-time.After(20 * time.Second):
			}
			out <- msg
		}
	}()
	return out, nil
}

// restartable starts a broker that the suite can restart by a command.
func restartable(t *testing.T) (url string, restart []string) {
	t.Helper()
	testservices.RabbitMQ(t) // skips without services
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "..", "..", "..", "scripts", "services")
	command := []string{script, "--instance", "suite" + fmt.Sprint(os.Getpid()), "--owner", fmt.Sprint(os.Getpid())}
	run := func(args ...string) string {
		t.Helper()
		c := exec.Command(command[0], append(command[1:len(command):len(command)], args...)...)
		c.Stderr = os.Stderr
		out, err := c.Output()
		if err != nil {
			t.Fatalf("scripts/services %v: %v", args, err)
		}
		return string(out)
	}
	t.Cleanup(func() { run("down") })
	run("up", "rabbitmq")
	for line := range strings.Lines(run("env", "rabbitmq")) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if name == "SEKALI_RABBITMQ_URL" {
			url = strings.Trim(value, "'")
		}
	}
	return url, append(command, "restart", "rabbitmq")
}
