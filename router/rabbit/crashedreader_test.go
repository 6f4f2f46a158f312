package rabbit_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// A letter that died of the delivery limit keeps its count on RabbitMQ 4.3, and
// would be over the limit of a DLQ, too, at the first crash of a reader.
func TestLetterOutlivesItsCrashingReaders(t *testing.T) {
	r := newRig(t)
	q := testservices.Name(t)
	dlq := r.diesOfTheLimit(q, &rabbit.Topology{RetrySteps: []time.Duration{}})
	for range 10 {
		r.crash(dlq)
	}
	if n := r.ready(dlq); n != 1 {
		t.Errorf("%d letters after ten crashes, want the one", n)
	}
	d, ok, err := r.raw.Get(dlq, true)
	r.must(err)
	if !ok || d.MessageId != "deadly" || string(d.Body) != "order" {
		t.Errorf("read %v, %q with body %q", ok, d.MessageId, d.Body)
	}
}

// What the test above would miss otherwise: the same crashes lose the letter
// from a DLQ of which nothing is said.
func TestLetterIsLostFromADLQWithALimit(t *testing.T) {
	r := newRig(t)
	if v := r.version(); v[0] < 4 || v[0] == 4 && v[1] < 3 {
		t.Skipf("RabbitMQ %d.%d does not carry the delivery count of a letter over", v[0], v[1])
	}
	q := testservices.Name(t)
	_, err := r.raw.QueueDeclare(rabbit.DeadLetterQueue(q), true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	r.must(err)
	dlq := r.diesOfTheLimit(q, &rabbit.Topology{RetrySteps: []time.Duration{}})
	r.crash(dlq)
	if n := r.ready(dlq); n != 0 {
		t.Errorf("%d letters: the broker does not do what the topology is there for", n)
	}
}

// diesOfTheLimit declares the topology of a queue and crashes its readers until
// their message is a letter.
func (r *rig) diesOfTheLimit(q string, topology *rabbit.Topology) (dlq string) {
	r.Helper()
	dlq = rabbit.DeadLetterQueue(q)
	r.must(r.subscriber(rabbit.SubscriberConfig{Topology: topology}).SubscribeInitialize(q))
	r.send(q, amqp.Publishing{MessageId: "deadly", Body: []byte("order")})
	const limit = 20
	for range limit + 1 {
		r.crash(q)
	}
	r.eventually("the message is a letter", func() bool { return r.ready(q) == 0 && r.ready(dlq) == 1 })
	return dlq
}

// crash takes the message at the head of a queue, and its connection ends without
// a word. It returns when the broker has noticed.
func (r *rig) crash(queue string) {
	r.Helper()
	var socket *net.TCPConn
	conn, err := amqp.DialConfig(r.url, amqp.Config{Dial: func(network, addr string) (net.Conn, error) {
		c, err := amqp.DefaultDial(patience)(network, addr)
		socket, _ = c.(*net.TCPConn)
		return c, err
	}})
	r.must(err)
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	ch, err := conn.Channel()
	r.must(err)
	r.must(ch.Qos(1, 0, false))
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	r.must(err)
	select {
	case _, ok := <-deliveries:
		if !ok {
			r.Fatalf("the consumer of %s was cancelled", queue)
		}
	case <-time.After(patience):
		r.Fatalf("no message in %s", queue)
	}
	r.must(socket.SetLinger(0)) // a reset, as from a process that was killed
	r.must(socket.Close())
	<-closed
	_ = conn.Close()
	r.eventually("the broker notices the crash", func() bool {
		q, err := r.raw.QueueDeclarePassive(queue, true, false, false, false, nil)
		r.must(err)
		return q.Consumers == 0
	})
}

// version of the broker: major and minor.
func (r *rig) version() (v [2]int) {
	r.Helper()
	conn, err := amqp.Dial(r.url)
	r.must(err)
	defer conn.Close()
	text, _ := conn.Properties["version"].(string)
	if _, err := fmt.Sscanf(text, "%d.%d", &v[0], &v[1]); err != nil {
		r.Fatalf("the broker's version is %q", text)
	}
	return v
}
