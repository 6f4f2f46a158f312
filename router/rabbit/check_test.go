package rabbit_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/router/rabbit"
)

var checkSteps = []time.Duration{200 * time.Millisecond, time.Hour}

// check asks with or without the management API.
func (r *rig) check(queue string, all bool) rabbit.Findings {
	r.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	c := rabbit.CheckConfig{RetrySteps: checkSteps, Client: &http.Client{Transport: transport}}
	if all {
		c.Management = testservices.RabbitMQManagement(r)
	}
	found, err := rabbit.Check(context.Background(), r.conn, queue, c)
	r.must(err)
	return found
}

// policy sets a policy for one queue.
func (r *rig) policy(queue, definition string) {
	r.Helper()
	body := fmt.Sprintf(`{"pattern": "^%s$", "definition": %s, "apply-to": "queues"}`, queue, definition)
	req, err := http.NewRequest(http.MethodPut, testservices.RabbitMQManagement(r)+"/api/policies/"+r.vhost()+"/operators", bytes.NewBufferString(body))
	r.must(err)
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	r.must(err)
	r.must(res.Body.Close())
	if res.StatusCode >= 300 {
		r.Fatalf("set policy: %s", res.Status)
	}
}

// has fails unless exactly one finding is of that queue and severity and says all
// parts.
func (r *rig) has(found rabbit.Findings, queue string, severity rabbit.Severity, parts ...string) {
	r.Helper()
	for _, f := range found {
		if f.Queue != queue || f.Severity != severity {
			continue
		}
		missing := false
		for _, part := range parts {
			missing = missing || !strings.Contains(f.Text, part)
		}
		if !missing {
			return
		}
	}
	r.Errorf("no %s of queue %q says %q:\n%v", severity, queue, parts, found)
}

func TestQueuesThatTopologyMadePassTheCheck(t *testing.T) {
	for _, kind := range []string{"quorum", "classic"} {
		r := newRig(t)
		queue := r.madeByTopology(kind)
		found := r.check(queue, true)
		if kind == "classic" {
			r.has(found, queue, rabbit.Remark, "counts no deliveries")
			found = found[1:]
		}
		if len(found) > 0 || found.Err() != nil {
			t.Errorf("%s: %v", kind, found)
		}
		// Without the API nothing is claimed.
		found = r.check(queue, false)
		if len(found) != 4 || found[0].Severity != rabbit.NotChecked || found.Err() != nil {
			t.Errorf("%s, without the API: %v", kind, found)
		}
	}
}

func (r *rig) madeByTopology(kind string) string {
	r.Helper()
	queue := testservices.Name(r)
	sub := r.subscriber(rabbit.SubscriberConfig{Topology: &rabbit.Topology{QueueType: kind, RetrySteps: checkSteps}})
	r.must(sub.SubscribeInitialize(queue))
	return queue
}

func TestCheckNamesWhatLosesMessages(t *testing.T) {
	quorum := amqp.Table{"x-queue-type": "quorum"}
	with := func(more amqp.Table) amqp.Table {
		t := amqp.Table{"x-queue-type": "quorum"}
		maps.Copy(t, more)
		return t
	}
	r := newRig(t)

	// Nothing is there.
	queue := testservices.Name(t)
	for _, all := range []bool{true, false} {
		found := r.check(queue, all)
		r.has(found, queue, rabbit.Fault, "does not exist")
		r.has(found, rabbit.DeadLetterQueue(queue), rabbit.Fault, "does not exist")
		r.has(found, queue, rabbit.Remark, "delayed retry is off")
		if found.Err() == nil {
			t.Error("no error")
		}
	}

	// Everything is wrong.
	queue = testservices.Name(t)
	dlq, retry := rabbit.DeadLetterQueue(queue), rabbit.RetryQueue(queue, checkSteps[0])
	r.declare(queue, with(amqp.Table{"x-max-length": int64(10), "x-expires": int64(3_600_000)}))
	r.declare(dlq, quorum)
	r.declare(retry, with(amqp.Table{"x-message-ttl": int64(100), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "elsewhere"}))
	r.policy(strings.ReplaceAll(dlq, ".", `\\.`), `{"delivery-limit": 5, "message-ttl": 60000}`)
	var found rabbit.Findings
	r.eventually("the policy is in force", func() bool {
		found = r.check(queue, true)
		return strings.Contains(fmt.Sprint(found), "6 times")
	})
	r.has(found, queue, rabbit.Fault, "max-length of 10", "reject-publish")
	r.has(found, queue, rabbit.Fault, "nobody has used it for 1h0m0s")
	r.has(found, queue, rabbit.Fault, "1 of 2 retry queues are missing")
	r.has(found, dlq, rabbit.Fault, "crashed with it 6 times", "set_policy", `"delivery-limit":`, `"message-ttl":60000`)
	r.has(found, dlq, rabbit.Fault, "drops letters after 1m0s", `policy "operators"`)
	r.has(found, retry, rabbit.Remark, "delays by 100ms, not by 200ms")
	r.has(found, retry, rabbit.Fault, "does not lead back")
	r.has(found, retry, rabbit.Fault, `queue "elsewhere", which does not exist`)

	// The limit as an argument: no policy lifts it.
	queue = testservices.Name(t)
	r.declare(queue, with(amqp.Table{"x-delivery-limit": int64(3)}))
	r.declare(rabbit.DeadLetterQueue(queue), with(amqp.Table{"x-delivery-limit": int64(3)}))
	found = r.check(queue, true)
	r.has(found, queue, rabbit.Fault, "delivery limit of 3", "no dead-letter exchange", "set_policy")
	r.has(found, rabbit.DeadLetterQueue(queue), rabbit.Fault, "crashed with it 4 times", "declare it without x-delivery-limit")
}

func TestCheckFollowsDeadLetters(t *testing.T) {
	r := newRig(t)
	for exchange, want := range map[string]string{"missing": "does not exist", "unbound": "no queue is bound", "direct": `with key "letters"`, "good": ""} {
		queue := testservices.Name(t)
		dlq := rabbit.DeadLetterQueue(queue)
		r.declare(dlq, nil)
		r.declare(queue, amqp.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "letters"})
		if exchange != "missing" {
			r.must(r.raw.ExchangeDeclare(exchange, "direct", true, false, false, false, nil))
		}
		switch exchange {
		case "direct":
			r.must(r.raw.QueueBind(dlq, "other", exchange, false, nil))
		case "good":
			r.must(r.raw.QueueBind(dlq, "letters", exchange, false, nil))
		}
		found := r.check(queue, true)
		if want != "" {
			r.has(found, queue, rabbit.Fault, "sends its dead letters to exchange", want)
		} else if found.Err() != nil {
			t.Errorf("%s: %v", exchange, found)
		}
	}
}

// A retry queue whose messages do not leave it.
func TestCheckReportsStuckRetries(t *testing.T) {
	r := newRig(t)
	queue := r.madeByTopology("quorum")
	_, err := r.raw.QueueDelete(queue, false, false, false)
	r.must(err)
	retry := rabbit.RetryQueue(queue, checkSteps[0])
	r.send(retry, amqp.Publishing{Body: []byte("stuck")})
	var found rabbit.Findings
	r.eventually("the message is reported", func() bool {
		found = r.check(queue, true)
		return strings.Contains(fmt.Sprint(found), "older than its TTL")
	})
	r.has(found, retry, rabbit.Fault, "holds 1 messages", queue)
}

func TestCheckTellsNoPassword(t *testing.T) {
	r := newRig(t)
	queue := r.queue(nil)
	for _, url := range []string{"http://me:s3cret@127.0.0.1:1", "://me:s3cret@", "http://me:s3cret%zz@host", strings.Replace(testservices.RabbitMQManagement(t), "://", "://s3cret", 1)} {
		_, err := rabbit.Check(context.Background(), r.conn, queue, rabbit.CheckConfig{Management: url, Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("got %v", err)
		}
	}
}
