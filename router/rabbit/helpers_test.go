package rabbit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// patience bounds what a test waits for; nothing should take that long.
const patience = 30 * time.Second

// rig is a virtual host of its own, with a plain client beside what is tested.
type rig struct {
	testing.TB
	url  string
	conn *rabbit.Connection
	raw  *amqp.Channel
	log  *logRecorder
}

// newRig also checks that no goroutine is left when the test has ended.
func newRig(t testing.TB) *rig {
	t.Helper()
	return newRigAt(t, testservices.NewVirtualHost(t))
}

func newRigAt(t testing.TB, url string) *rig {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if err := goleak.Find(ignore); err != nil {
			t.Errorf("goroutines are left: %v", err)
		}
	})
	r := &rig{TB: t, url: url, log: &logRecorder{tb: t}}
	r.conn = r.connection(rabbit.ConnectionConfig{})
	r.raw = r.channel()
	return r
}

func (r *rig) connection(c rabbit.ConnectionConfig) *rabbit.Connection {
	r.Helper()
	if c.Logger == nil {
		c.Logger = r.log
	}
	conn, err := rabbit.NewConnection(r.url, c)
	r.must(err)
	r.Cleanup(func() { r.must(conn.Close()) })
	return conn
}

// channel of a plain client.
func (r *rig) channel() *amqp.Channel {
	r.Helper()
	conn, err := amqp.Dial(r.url)
	r.must(err)
	r.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	r.must(err)
	return ch
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) queue(args amqp.Table) string {
	r.Helper()
	name := testservices.Name(r)
	r.declare(name, args)
	return name
}

func (r *rig) declare(name string, args amqp.Table) {
	r.Helper()
	_, err := r.raw.QueueDeclare(name, true, false, false, false, args)
	r.must(err)
}

// remove deletes a queue with all that is in it.
func (r *rig) remove(name string) {
	r.Helper()
	_, err := r.raw.QueueDelete(name, false, false, false)
	r.must(err)
}

// send publishes with the plain client.
func (r *rig) send(queue string, p amqp.Publishing) {
	r.Helper()
	r.must(r.raw.PublishWithContext(context.Background(), "", queue, false, false, p))
}

// get takes one message with the plain client; false when the queue stays empty.
func (r *rig) get(queue string) (amqp.Delivery, bool) {
	r.Helper()
	var d amqp.Delivery
	ok := r.poll(5*time.Second, func() bool {
		var ok bool
		var err error
		d, ok, err = r.raw.Get(queue, true)
		r.must(err)
		return ok
	})
	return d, ok
}

// ready counts messages that nobody holds.
func (r *rig) ready(queue string) int {
	r.Helper()
	q, err := r.raw.QueueDeclarePassive(queue, true, false, false, false, nil)
	r.must(err)
	return q.Messages
}

func (r *rig) poll(limit time.Duration, f func() bool) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return f()
		}
	}
	return true
}

// back waits until the queue holds that many messages again, and returns how many
// it holds. A classic queue may answer a look before returns that came ahead of it.
func (r *rig) back(queue string, want int) int {
	r.Helper()
	r.poll(patience, func() bool { return r.ready(queue) == want })
	return r.ready(queue)
}

func (r *rig) eventually(what string, f func() bool) {
	r.Helper()
	if !r.poll(patience, f) {
		r.Fatalf("did not happen in %s: %s", patience, what)
	}
}

func (r *rig) subscriber(c rabbit.SubscriberConfig) *rabbit.Subscriber {
	r.Helper()
	if c.Logger == nil {
		c.Logger = r.log
	}
	if c.CloseTimeout == 0 {
		c.CloseTimeout = 3 * time.Second
	}
	sub, err := rabbit.NewSubscriber(r.conn, c)
	r.must(err)
	r.Cleanup(func() { r.must(sub.Close()) })
	return sub
}

func (r *rig) publisher(c rabbit.PublisherConfig) *rabbit.Publisher {
	r.Helper()
	if c.Logger == nil {
		c.Logger = r.log
	}
	pub, err := rabbit.NewPublisher(r.conn, c)
	r.must(err)
	r.Cleanup(func() { r.must(pub.Close()) })
	return pub
}

func (r *rig) subscribe(sub *rabbit.Subscriber, topic string) <-chan *message.Message {
	r.Helper()
	msgs, err := sub.Subscribe(context.Background(), topic)
	r.must(err)
	return msgs
}

func (r *rig) receive(msgs <-chan *message.Message) *message.Message {
	r.Helper()
	select {
	case msg, ok := <-msgs:
		if !ok {
			r.Fatal("the channel of messages was closed")
		}
		return msg
	case <-time.After(patience):
		r.Fatal("no message came")
	}
	return nil
}

func (r *rig) vhost() string {
	u, err := url.Parse(r.url)
	r.must(err)
	return strings.TrimPrefix(u.Path, "/")
}

// manage calls the management API and decodes the answer into v.
func (r *rig) manage(method, path string, v any) {
	r.Helper()
	req, err := http.NewRequest(method, strings.TrimSuffix(testservices.RabbitMQManagement(r), "/")+path, nil)
	r.must(err)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	r.must(err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	r.must(err)
	if res.StatusCode >= 300 && res.StatusCode != http.StatusNotFound {
		r.Fatalf("%s %s: %s: %s", method, path, res.Status, body)
	}
	if v != nil {
		r.must(json.Unmarshal(body, v))
	}
}

// cut has the broker close our connections of one direction.
func (r *rig) cut(d rabbit.Direction) {
	r.Helper()
	r.eventually("a connection to close is listed", func() bool {
		var list []struct {
			Name       string `json:"name"`
			VHost      string `json:"vhost"`
			Properties struct {
				Name string `json:"connection_name"`
			} `json:"client_properties"`
		}
		r.manage(http.MethodGet, "/api/connections", &list)
		found := false
		for _, c := range list {
			if c.VHost == r.vhost() && strings.HasSuffix(c.Properties.Name, "("+string(d)+")") {
				r.manage(http.MethodDelete, "/api/connections/"+url.PathEscape(c.Name), nil)
				found = true
			}
		}
		return found
	})
}

// logRecorder keeps what was logged, for tests that ask for it.
type logRecorder struct {
	tb    testing.TB
	mu    sync.Mutex
	lines []string
}

func (l *logRecorder) add(level, msg string, err error, fields watermill.LogFields) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprint(level, " ", msg, " err=", err, " ", fields))
}

func (l *logRecorder) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

func (l *logRecorder) count(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

func (l *logRecorder) Error(msg string, err error, f watermill.LogFields) {
	l.add("error", msg, err, f)
}
func (l *logRecorder) Info(msg string, f watermill.LogFields)             { l.add("info", msg, nil, f) }
func (l *logRecorder) Debug(string, watermill.LogFields)                  {}
func (l *logRecorder) Trace(string, watermill.LogFields)                  {}
func (l *logRecorder) With(f watermill.LogFields) watermill.LoggerAdapter { return &logWith{l, f} }

type logWith struct {
	*logRecorder
	fields watermill.LogFields
}

func (l *logWith) Error(msg string, err error, f watermill.LogFields) {
	l.add("error", msg, err, l.fields.Add(f))
}
func (l *logWith) Info(msg string, f watermill.LogFields) { l.add("info", msg, nil, l.fields.Add(f)) }
func (l *logWith) With(f watermill.LogFields) watermill.LoggerAdapter {
	return &logWith{l.logRecorder, l.fields.Add(f)}
}
