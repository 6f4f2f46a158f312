package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/source"
	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/router"
	"github.com/sekali-mq/sekali/router/rabbit"
)

func TestMain(m *testing.M) {
	// Tests that need the command as a process run this binary again.
	if os.Getenv("SEKALI_TEST_COMMAND") != "" {
		main()
	}
	os.Exit(m.Run())
}

// desk is a service with its queue on a broker, and the operator's command.
type desk struct {
	*shop

	url     string
	queue   string
	channel *amqp.Channel

	mu   sync.Mutex
	bad  bool
	runs map[string]int
}

// newDesk starts a service whose handler fails orders as long as it is bad.
func newDesk(t *testing.T, p place) *desk {
	t.Helper()
	d := &desk{shop: newShop(t, p), url: testservices.NewVirtualHost(t), queue: "orders.stock", bad: true, runs: make(map[string]int)}
	d.env = append(d.env, "SEKALI_AMQP_URL="+d.url)
	d.call("dlq", "migrate").wants(exitDone, "Letters: the tables are there")
	conn, err := amqp.Dial(d.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if d.channel, err = conn.Channel(); err != nil {
		t.Fatal(err)
	}
	d.start()
	return d
}

// start the service; it ends with the test.
func (d *desk) start() {
	d.t.Helper()
	src := d.connect()
	box, err := src.Inbox(context.Background(), d.db, source.Options{Strict: true})
	if err != nil {
		d.t.Fatal(err)
	}
	svc, err := router.New(d.url, box, router.Config{Topology: &rabbit.Topology{RetrySteps: []time.Duration{}}, Concurrency: 4, CloseTimeout: 5 * time.Second})
	if err != nil {
		d.t.Fatal(err)
	}
	if err := svc.Handle(d.queue, d.handle); err != nil {
		d.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- svc.Run(ctx) }()
	d.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			d.t.Error(err)
		}
	})
	select {
	case <-svc.Watermill().Running():
	case err := <-ended:
		d.t.Fatal(err)
	case <-time.After(30 * time.Second):
		d.t.Fatal("the service does not start")
	}
}

func (d *desk) handle(msg *message.Message) error {
	claim, _ := inbox.Current(msg.Context())
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bad && strings.HasPrefix(claim.Key, "order-") {
		return inbox.Permanent(errors.New("no such item 4711"))
	}
	d.runs[claim.Key]++
	return nil
}

func (d *desk) mend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bad = false
}

// handled tells how often the handler got through for a key.
func (d *desk) handled(key string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.runs[key]
}

// publish to a queue, with an event_id.
func (d *desk) publish(queue, key, body string) {
	d.t.Helper()
	headers := amqp.Table{"count": int64(7), "secret\x1b[2J": []byte{1, 2}}
	if key != "" {
		headers["event_id"] = key
	}
	err := d.channel.PublishWithContext(d.t.Context(), "", queue, true, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: key, ContentType: "application/json", Headers: headers, Body: []byte(body)})
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) declare(queue string) {
	d.t.Helper()
	if _, err := d.channel.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) depth(queue string) int {
	d.t.Helper()
	q, err := d.channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return q.Messages
}

// until waits for a condition.
func (d *desk) until(what string, condition func() bool) {
	d.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(40 * time.Second); !condition(); <-tick.C {
		if time.Now().After(end) {
			d.t.Fatalf("not within 40 s: %s", what)
		}
	}
}

// letters makes n letters of messages that fail, and collects them.
func (d *desk) letters(n int) {
	d.t.Helper()
	for i := range n {
		if i%10 == 9 { // when all that come die, the consumer is held
			d.publish(d.queue, "good-"+strconv.Itoa(i), "x")
		}
		d.publish(d.queue, "order-"+strconv.Itoa(i+1), `{"order":`+strconv.Itoa(i+1)+`}`)
	}
	d.until("the letters are in the DLQ", func() bool { return d.depth(d.queue+".dlq") == n })
	d.collect(d.queue+".dlq", n)
}

func (d *desk) collect(dlq string, n int) {
	d.t.Helper()
	line := d.call("dlq", "collect", dlq, "--until-empty", "--json").wants(exitDone, "Alarms on the depth of these queues go quiet").line()
	if line["collected"] != float64(n) || line["left"] != 0.0 {
		d.t.Fatalf("collected %v, want %d", line, n)
	}
}

// count of letters.
func (d *desk) count(args ...string) int {
	d.t.Helper()
	line := d.call(append([]string{"dlq", "count", "--json"}, args...)...).wants(exitDone).line()
	n, _ := line["count"].(float64)
	return int(n)
}

// processed waits until the inbox has claims of all these keys.
func (d *desk) processed(keys ...string) {
	d.t.Helper()
	for _, key := range keys {
		d.until(key+" is processed", func() bool { return d.claimed(d.queue, key) })
	}
}
