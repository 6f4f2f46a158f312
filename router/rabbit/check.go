package rabbit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// CheckConfig configures Check. The zero value looks for the queues that
// Topology would declare, and for nothing else.
type CheckConfig struct {
	// Management is the URL of the broker's management API, with user and password
	// in it: http://user:password@host:15672. The user needs the tag "management"
	// and access to the virtual host. Defaults to "": limits, overflow and where
	// dead letters go are not checked, and the result says so.
	Management string
	// DeadLetterQueue names the DLQ; "" means none. Defaults to DeadLetterQueue.
	DeadLetterQueue func(queue string) string
	// RetrySteps have a retry queue each. An empty slice that is not nil means
	// none. Defaults to DefaultRetrySteps.
	RetrySteps []time.Duration
	// RetryQueue names the retry queue of one step. Defaults to RetryQueue.
	RetryQueue func(queue string, step time.Duration) string
	// Client asks the management API. Defaults to http.DefaultClient.
	Client *http.Client
}

// Severity of a Finding.
type Severity uint8

const (
	// NotChecked: nobody was asked who could tell. The zero value.
	NotChecked Severity = iota
	// Remark: works, but not as well as it could.
	Remark
	// Fault: messages can be lost, or letters.
	Fault
)

// String gives the word that a report shows.
func (s Severity) String() string {
	switch s {
	case NotChecked:
		return "not checked"
	case Remark:
		return "remark"
	case Fault:
		return "fault"
	}
	return "not checked"
}

// Finding is one thing that Check found out about a queue.
type Finding struct {
	// Queue that it is about.
	Queue string
	// Severity of it.
	Severity Severity
	// Text is one sentence with the fix in it.
	Text string
}

// String gives the finding as one line.
func (f Finding) String() string { return fmt.Sprintf("%s: queue %q: %s", f.Severity, f.Queue, f.Text) }

// Findings is what a Check came to. None at all means that all was looked at and
// nothing is wrong.
type Findings []Finding

// Err joins the faults; nil when there is none.
func (fs Findings) Err() error {
	var errs []error
	for _, f := range fs {
		if f.Severity == Fault {
			errs = append(errs, fmt.Errorf("queue %q: %s", f.Queue, f.Text))
		}
	}
	return errors.Join(errs...)
}

// Check looks at a queue, its DLQ and its retry queues: whether a message can
// disappear from them that nobody gave up. It changes nothing on the broker and
// takes no message. Call it at the start of a service, or from an operator's
// tool: much of what it looks at is policies, which change while services run.
//
// The error says that the broker could not be asked; what is wrong with the
// queues is in the findings, see Findings.Err.
func Check(ctx context.Context, conn *Connection, queue string, c CheckConfig) (Findings, error) {
	if conn == nil {
		return nil, errors.New("check: connection is nil: make one with NewConnection")
	}
	if c.DeadLetterQueue == nil {
		c.DeadLetterQueue = DeadLetterQueue
	}
	if c.RetrySteps == nil {
		c.RetrySteps = DefaultRetrySteps()
	}
	if c.RetryQueue == nil {
		c.RetryQueue = RetryQueue
	}
	k := checker{conn: conn, queue: queue, dlq: c.DeadLetterQueue(queue)}
	if c.Management != "" {
		var err error
		if k.api, err = newManagement(c.Management, conn, c.Client); err != nil {
			return nil, fmt.Errorf("check queue %q: %w", queue, err)
		}
	}
	err := k.all(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("check queue %q: %w", queue, err)
	}
	return k.found, nil
}

// checker collects findings.
type checker struct {
	conn       *Connection
	api        *management // nil: only what AMQP can tell
	queue, dlq string
	found      Findings
}

func (k *checker) all(ctx context.Context, c CheckConfig) error {
	if err := k.one(ctx, k.queue, true, "create it, or set Topology", k.work); err != nil {
		return err
	}
	if k.dlq != "" {
		if err := k.one(ctx, k.dlq, true, "create it, or letters have nowhere to go", k.letters); err != nil {
			return err
		}
	}
	missing := 0
	for _, step := range c.RetrySteps {
		name := c.RetryQueue(k.queue, step)
		before := len(k.found)
		err := k.one(ctx, name, false, "", func(q queueInfo) { k.retry(q, step) })
		if err != nil {
			return err
		}
		if len(k.found) == before+1 && k.found[before].Text == absent {
			missing++
			k.found = k.found[:before]
		}
	}
	switch {
	case missing == 0:
	case missing == len(c.RetrySteps):
		k.add(k.queue, Remark, "has no retry queues: delayed retry is off, and a failing message becomes a letter after the retries in place")
	default:
		k.add(k.queue, Fault, fmt.Sprintf("%d of %d retry queues are missing: create them, or a message for such a delay stays unsettled", missing, len(c.RetrySteps)))
	}
	return nil
}

// absent marks a queue that is only missed together with others.
const absent = "does not exist"

// one looks at one queue with as much as can be known of it.
func (k *checker) one(ctx context.Context, name string, required bool, fix string, rules func(queueInfo)) error {
	err := k.conn.FindQueue(ctx, name)
	switch {
	case errors.Is(err, ErrNoQueue) && required:
		k.add(name, Fault, absent+": "+fix)
		return nil
	case errors.Is(err, ErrNoQueue):
		k.add(name, Fault, absent)
		return nil
	case err != nil:
		return err
	}
	if k.api == nil {
		k.add(name, NotChecked, "limits, overflow, TTL and where its dead letters go: give the URL of the management API")
		return nil
	}
	info, err := k.api.queue(ctx, name)
	if err != nil {
		return err
	}
	rules(info)
	return k.deadLetters(ctx, info)
}

func (k *checker) add(queue string, s Severity, text string) {
	k.found = append(k.found, Finding{Queue: queue, Severity: s, Text: text})
}

// deadLetters follows the dead letters of a queue to where they arrive.
func (k *checker) deadLetters(ctx context.Context, q queueInfo) error {
	exchange, ok := q.text("dead-letter-exchange")
	if !ok {
		return nil
	}
	key, hasKey := q.text("dead-letter-routing-key")
	if exchange == "" {
		if !hasKey {
			return nil // to the queues named by the routing keys of the messages
		}
		err := k.conn.FindQueue(ctx, key)
		if errors.Is(err, ErrNoQueue) {
			k.add(q.Name, Fault, fmt.Sprintf("sends its dead letters to queue %q, which does not exist: they are dropped or, at least once, block the queue; create it", key))
			return nil
		}
		return err
	}
	kind, bindings, err := k.api.exchange(ctx, exchange)
	switch {
	case errors.Is(err, errNotThere):
		k.add(q.Name, Fault, fmt.Sprintf("sends its dead letters to exchange %q, which does not exist: they are dropped; create it", exchange))
		return nil
	case err != nil:
		return err
	case len(bindings) == 0:
		k.add(q.Name, Fault, fmt.Sprintf("sends its dead letters to exchange %q, to which no queue is bound: they are dropped; bind the DLQ", exchange))
	case kind == "direct" && hasKey && !slices.Contains(bindings, key):
		k.add(q.Name, Fault, fmt.Sprintf("sends its dead letters to exchange %q with key %q, for which no queue is bound (there are %s): they are dropped; bind the DLQ", exchange, key, strings.Join(bindings, ", ")))
	}
	return nil
}
