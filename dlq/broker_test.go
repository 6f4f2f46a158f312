package dlq_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/router"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// broker is a rig with a virtual host, services in it, and a collector.
type broker struct {
	*rig

	url  string
	raw  *amqp.Channel
	conn *rabbit.Connection
	pub  *rabbit.Publisher

	mu      sync.Mutex
	effects map[string]int
	broken  atomic.Bool
}

func newBroker(t *testing.T, c dlq.Config) *broker {
	t.Helper()
	b := &broker{rig: newRig(t, databases[3], c), url: testservices.NewVirtualHost(t), effects: map[string]int{}}
	conn, err := amqp.Dial(b.url)
	b.must(err)
	t.Cleanup(func() { _ = conn.Close() })
	b.raw, err = conn.Channel()
	b.must(err)
	b.conn, err = rabbit.NewConnection(b.url, rabbit.ConnectionConfig{})
	b.must(err)
	t.Cleanup(func() { _ = b.conn.Close() })
	b.pub, err = rabbit.NewPublisher(b.conn, rabbit.PublisherConfig{})
	b.must(err)
	t.Cleanup(func() { _ = b.pub.Close() })
	return b
}

// handle is the business of all services: an effect named by queue and body.
func (b *broker) handle(ctx context.Context, body []byte) error {
	if b.broken.Load() {
		return inbox.Permanent(errors.New("no stock"))
	}
	if _, err := inbox.Tx(ctx); err != nil {
		return err
	}
	claim, _ := inbox.Current(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.effects[claim.Consumer+" "+string(body)]++
	return nil
}

func (b *broker) effect(name string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.effects[name]
}

// serve runs a service on a queue, which it declares with its DLQ.
func (b *broker) serve(queue string) {
	b.Helper()
	svc, err := router.New(b.url, b.box, router.Config{
		Topology: &rabbit.Topology{RetrySteps: []time.Duration{}}, Concurrency: 2, CloseTimeout: 2 * time.Second,
		Logger: slog.New(slog.NewTextHandler(b.log, nil)),
	})
	b.must(err)
	b.must(svc.Handle(queue, func(msg *message.Message) error { return b.handle(msg.Context(), msg.Payload) }))
	b.run(svc.Run, svc.Watermill().Running())
}

// gather runs the collector on the DLQ of queues.
func (b *broker) gather(queues ...string) {
	b.Helper()
	sub, err := rabbit.NewSubscriber(b.conn, rabbit.SubscriberConfig{CloseTimeout: 2 * time.Second, Concurrency: 8})
	b.must(err)
	mill, err := message.NewRouter(message.RouterConfig{CloseTimeout: 3 * time.Second}, watermill.NewSlogLogger(slog.New(slog.NewTextHandler(b.log, nil))))
	b.must(err)
	for _, q := range queues {
		mill.AddConsumerHandler("collect "+q, rabbit.DeadLetterQueue(q), sub, b.letters.Collector(dlq.CollectorConfig{}))
	}
	b.run(mill.Run, mill.Running())
	b.Cleanup(func() { _ = sub.Close() })
}

func (b *broker) run(run func(context.Context) error, running <-chan struct{}) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	b.Cleanup(func() { cancel(); <-done })
	select {
	case <-running:
	case err := <-done:
		b.Fatalf("run: %v", err)
	case <-time.After(patience):
		b.Fatal("does not start")
	}
}

func (b *broker) publish(exchange, key string, p amqp.Publishing) {
	b.Helper()
	p.DeliveryMode = amqp.Persistent
	b.must(b.raw.PublishWithContext(b.Context(), exchange, key, false, false, p))
}

func (b *broker) eventually(what string, f func() bool) {
	b.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-limit:
			b.Fatalf("did not happen in %s: %s\n%s", patience, what, b.log)
		}
	}
}

func (b *broker) ready(name string) int {
	b.Helper()
	q, err := b.raw.QueueDeclarePassive(name, true, false, false, false, nil)
	b.must(err)
	return q.Messages
}

func (b *broker) send(c dlq.RedriveConfig) dlq.Run {
	b.Helper()
	run, err := b.letters.Redrive(b.Context(), b.pub.ToQueues(), c)
	b.must(err)
	return run
}

func TestTheWholeCircleOnRabbitMQ(t *testing.T) {
	b := newBroker(t, dlq.Config{})
	b.serve("stock")
	b.gather("stock")
	b.broken.Store(true)
	const n = 12 // at 20 deaths in a row the consumer would be held
	for i := range n {
		b.publish("", "stock", amqp.Publishing{
			MessageId: fmt.Sprintf("m%d", i), Body: fmt.Appendf(nil, "body-%d", i), Timestamp: time.Now(), Expiration: "600000",
			Headers: amqp.Table{"n": int64(i), "list": amqp.Table{"a": []any{int32(1), nil}}},
		})
	}
	b.eventually("all are collected", func() bool { return b.count(dlq.Filter{States: []dlq.State{dlq.Waiting}}) == n })
	plan, err := b.letters.Plan(t.Context(), all())
	b.must(err)
	if plan.Sent != n || b.ready("stock") != 0 {
		t.Fatalf("%+v", plan)
	}
	// Still broken: all of it comes back, to the same letters.
	c := all()
	c.KeepGoing = true
	if run := b.send(c); run.Counts.Sent != n {
		t.Errorf("%+v", run.Counts)
	}
	b.eventually("all are back", func() bool { return b.count(dlq.Filter{States: []dlq.State{dlq.Waiting}}) == n })
	if got := b.count(dlq.Filter{}); got != n {
		t.Errorf("%d letters, want %d", got, n)
	}
	b.broken.Store(false)
	run := b.send(c)
	b.eventually("all took effect", func() bool {
		f, err := b.letters.Fates(t.Context(), run.ID)
		b.must(err)
		return f.Processed == n
	})
	for i := range n {
		if got := b.effect(fmt.Sprintf("stock body-%d", i)); got != 1 {
			t.Errorf("body-%d has %d effects", i, got)
		}
	}
	if got := b.states(); got[dlq.Resolved] != n || b.ready("stock.dlq") != 0 {
		t.Errorf("%v", got)
	}
}

func TestSiblingsAndCopiesGetNothingOfARedrive(t *testing.T) {
	b := newBroker(t, dlq.Config{})
	b.serve("a")
	b.gather("a")
	for _, q := range []string{"sibling", "copies"} {
		_, err := b.raw.QueueDeclare(q, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
		b.must(err)
	}
	b.must(b.raw.ExchangeDeclare("events", "fanout", true, false, false, false, nil))
	b.must(b.raw.QueueBind("a", "", "events", false, nil))
	b.must(b.raw.QueueBind("sibling", "", "events", false, nil))
	b.broken.Store(true)
	b.publish("events", "", amqp.Publishing{MessageId: "m1", Body: []byte("one")})
	b.publish("", "a", amqp.Publishing{MessageId: "m2", Body: []byte("two"), Headers: amqp.Table{"CC": []any{"copies"}, "BCC": []any{"copies"}}})
	b.eventually("both are collected", func() bool { return b.count(dlq.Filter{}) == 2 })
	b.eventually("the sibling has its copy", func() bool { return b.ready("sibling") == 1 })
	copies := b.ready("copies")
	b.broken.Store(false)
	b.send(all())
	b.eventually("both took effect", func() bool { return b.effect("a one") == 1 && b.effect("a two") == 1 })
	if s, c := b.ready("sibling"), b.ready("copies"); s != 1 || c != copies {
		t.Errorf("sibling has %d, copies %d, want 1 and %d", s, c, copies)
	}
}

func TestOneEventThatDiesInTwoQueuesIsTwoLetters(t *testing.T) {
	b := newBroker(t, dlq.Config{})
	b.serve("a")
	b.serve("b")
	b.gather("a", "b")
	b.must(b.raw.ExchangeDeclare("events", "fanout", true, false, false, false, nil))
	b.must(b.raw.QueueBind("a", "", "events", false, nil))
	b.must(b.raw.QueueBind("b", "", "events", false, nil))
	b.broken.Store(true)
	b.publish("events", "", amqp.Publishing{MessageId: "m1", Body: []byte("x")})
	b.eventually("both are collected", func() bool { return b.count(dlq.Filter{}) == 2 })
	b.broken.Store(false)
	c := all()
	c.Filter = dlq.Filter{Consumer: "a"}
	b.send(c)
	b.eventually("a took effect", func() bool { return b.effect("a x") == 1 })
	if b.effect("b x") != 0 || b.count(dlq.Filter{Consumer: "b", States: []dlq.State{dlq.Waiting}}) != 1 {
		t.Error("the other queue's letter was touched")
	}
	b.send(all())
	b.eventually("b took effect", func() bool { return b.effect("b x") == 1 })
	if b.effect("a x") != 1 {
		t.Errorf("a has %d effects", b.effect("a x"))
	}
}

func TestAQueueThatIsGoneIsToldPerLetter(t *testing.T) {
	b := newBroker(t, dlq.Config{})
	l := b.store(b.died("k", "x"))
	run := b.send(all()) // there is no queue "orders"
	if run.Counts.Failed != 1 || run.Counts.Sent != 0 {
		t.Errorf("%+v", run.Counts)
	}
	b.want(l.ID, dlq.Waiting)
	events, err := b.letters.History(t.Context(), l.ID)
	b.must(err)
	if last := events[len(events)-1]; !strings.Contains(last.Text, "no queue is bound") {
		t.Errorf("%+v", last)
	}
}

// An operator has letters run again that were processed: the stack and the plain
// loop read the key that was given for it, once.
func TestAGivenKeyIsReadByItsConsumerOnly(t *testing.T) {
	for _, kind := range []string{"stack", "handle"} {
		t.Run(kind, func(t *testing.T) {
			b := newBroker(t, dlq.Config{})
			if kind == "stack" {
				b.serve("stock")
			} else {
				b.loop("stock")
			}
			b.gather("stock")
			b.broken.Store(true)
			b.publish("", "stock", amqp.Publishing{MessageId: "m1", Body: []byte("x")})
			b.eventually("it is collected", func() bool { return b.count(dlq.Filter{}) == 1 })
			b.broken.Store(false)
			b.publish("", "stock", amqp.Publishing{MessageId: "m1", Body: []byte("x")})
			b.eventually("it is processed", func() bool { return b.effect("stock x") == 1 })
			c := all()
			c.AsNew, c.Note = true, note
			b.broken.Store(true)
			first := b.send(c)
			b.eventually("it died again", func() bool { return b.count(dlq.Filter{States: []dlq.State{dlq.Waiting}}) == 1 })
			l, err := b.letters.List(t.Context(), dlq.Filter{}, dlq.OldestFirst, 0)
			b.must(err)
			if len(l) != 1 || l[0].Key != "m1#redrive-"+first.ID {
				t.Fatalf("%+v", l[0])
			}
			b.broken.Store(false)
			second := b.send(all()) // by the key that it has now
			if second.Counts.Sent != 1 {
				t.Errorf("%+v", second.Counts)
			}
			b.eventually("it ran again", func() bool { return b.effect("stock x") == 2 })
			for _, given := range []string{"stock/m1#redrive-" + first.ID, "other/fresh"} {
				b.publish("", "stock", amqp.Publishing{MessageId: "m1", Body: []byte("x"), Headers: amqp.Table{"sekali-key": given}})
			}
			b.publish("", "stock", amqp.Publishing{MessageId: "m2", Body: []byte("y")})
			b.eventually("all are settled", func() bool { return b.effect("stock y") == 1 && b.ready("stock") == 0 })
			if n := b.effect("stock x"); n != 2 {
				t.Errorf("%d effects, want 2: the copy of the redrive and a key for somebody else are duplicates", n)
			}
		})
	}
}

// loop is a plain consume loop on a queue that a service of before declared.
func (b *broker) loop(queue string) {
	b.Helper()
	for _, q := range []string{queue, rabbit.DeadLetterQueue(queue)} {
		_, err := b.raw.QueueDeclare(q, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
		b.must(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	handle, err := rabbit.Handle(ctx, b.box, rabbit.HandleConfig{Queue: queue, Letters: b.pub}, func(ctx context.Context, d amqp.Delivery) error {
		return b.handle(ctx, d.Body)
	})
	b.must(err)
	conn, err := amqp.Dial(b.url)
	b.must(err)
	ch, err := conn.Channel()
	b.must(err)
	b.must(ch.Qos(2, 0, false))
	deliveries, err := ch.Consume(queue, "loop", false, false, false, false, nil)
	b.must(err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for d := range deliveries {
			handle(d)
		}
	}()
	b.Cleanup(func() {
		_ = ch.Cancel("loop", false)
		cancel()
		<-done
		_ = conn.Close()
	})
}

// A broker that is killed in the middle of a run: the run waits, nothing is marked
// as sent without a confirm, and all letters are in the queue in the end.
func TestARunOutlivesTheBroker(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a broker of its own")
	}
	server := testservices.Start(t, "rabbitmq")
	r := newRig(t, databases[3], dlq.Config{})
	const n = 60
	r.fill(n)
	raw, err := amqp.Dial(server.URL())
	r.must(err)
	ch, err := raw.Channel()
	r.must(err)
	_, err = ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	r.must(err)
	_ = raw.Close()
	conn, err := rabbit.NewConnection(server.URL(), rabbit.ConnectionConfig{})
	r.must(err)
	defer func() { _ = conn.Close() }()
	pub, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{Timeout: time.Second})
	r.must(err)
	defer func() { _ = pub.Close() }()
	batches, killed := make(chan int64, n), make(chan struct{})
	done := make(chan error, 1)
	var run dlq.Run
	go func() {
		c := all()
		c.Batch, c.Lease, c.Progress = 5, time.Minute, func(run dlq.Run) { batches <- run.Counts.Sent }
		var err error
		run, err = r.letters.Redrive(context.Background(), &gate{Confirmed: pub.ToQueues(), open: killed}, c)
		done <- err
	}()
	<-batches
	server.Kill()
	close(killed)
	limit := time.After(patience)
	for !strings.Contains(r.log.String(), "waits for it") {
		select {
		case <-batches:
		case <-limit:
			t.Fatalf("nothing was said of the broker: %v\n%s", r.states(), r.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
	server.Start()
	r.must(<-done)
	if run.Counts.Sent != n || r.states()[dlq.Sent] != n {
		t.Errorf("%+v: %v", run.Counts, r.states())
	}
	raw, err = amqp.Dial(server.URL())
	r.must(err)
	defer func() { _ = raw.Close() }()
	ch, err = raw.Channel()
	r.must(err)
	got := map[string]bool{}
	for {
		d, ok, err := ch.Get(queue, true)
		r.must(err)
		if !ok {
			break
		}
		key, _ := d.Headers["event_id"].(string)
		got[key] = true
	}
	if len(got) != n {
		t.Errorf("%d different letters in the queue, want %d", len(got), n)
	}
}

// gate holds all publishes but the first.
type gate struct {
	middleware.Confirmed

	open   <-chan struct{}
	passed bool
}

func (g *gate) PublishEach(ctx context.Context, topic string, msgs ...*message.Message) []error {
	if g.passed {
		<-g.open
	}
	g.passed = true
	return g.Confirmed.PublishEach(ctx, topic, msgs...)
}

var _ middleware.Confirmed = (*rabbit.Publisher)(nil)
