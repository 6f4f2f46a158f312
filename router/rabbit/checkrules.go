package rabbit

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"time"
)

// unlimited is a delivery limit that nobody reaches, for brokers that know none
// that says so.
const unlimited = 1_000_000_000

// work has the rules for the queue that a service consumes from.
func (k *checker) work(q queueInfo) {
	_, routed := q.text("dead-letter-exchange")
	if n, ok := q.deliveryLimit(); ok && q.Type == "quorum" && !routed {
		k.add(q.Name, Fault, fmt.Sprintf("drops a message at its delivery limit of %d, since it has no dead-letter exchange: %s",
			n, q.policy(map[string]any{"dead-letter-exchange": "", "dead-letter-routing-key": k.dlq})))
	}
	if q.Type == "classic" {
		k.add(q.Name, Remark, "is a classic queue and counts no deliveries: a message that kills its reader comes back for ever; a quorum queue under a new name does not")
	}
	if n, ok := q.number("message-ttl"); ok && !routed {
		k.add(q.Name, Fault, fmt.Sprintf("drops messages after %s, since it has no dead-letter exchange: %s",
			time.Duration(n)*time.Millisecond, q.policy(map[string]any{"dead-letter-exchange": "", "dead-letter-routing-key": k.dlq})))
	}
	k.overflow(q)
	strategy, _ := q.text("dead-letter-strategy")
	if overflow, _ := q.text("overflow"); strategy == "at-least-once" && overflow != "reject-publish" {
		k.add(q.Name, Remark, "is to dead-letter at least once, which without overflow reject-publish it does not: "+q.policy(map[string]any{"overflow": "reject-publish"}))
	}
}

// letters has the rules for a DLQ.
func (k *checker) letters(q queueInfo) {
	if n, ok := q.deliveryLimit(); ok && q.Type == "quorum" && n < unlimited {
		limit := any(unlimited)
		if q.server.major >= 4 {
			limit = -1
		}
		fix := q.policy(map[string]any{"delivery-limit": limit})
		if _, fixed := q.Arguments["x-delivery-limit"]; fixed {
			fix = "the limit is an argument of the queue, which no policy lifts: when the queue is empty, delete it and declare it without x-delivery-limit"
			if q.server.major >= 4 {
				fix += " or with -1"
			}
		}
		k.add(q.Name, Fault, fmt.Sprintf("loses a letter when its readers have crashed with it %s: %s", times(n), fix))
	}
	if n, ok := q.number("message-ttl"); ok {
		k.add(q.Name, Fault, fmt.Sprintf("drops letters after %s: %s", time.Duration(n)*time.Millisecond, q.without("message-ttl")))
	}
	k.overflow(q)
}

func times(n int64) string {
	if n <= 0 {
		return "once"
	}
	return fmt.Sprintf("%d times", n+1)
}

// retry has the rules for the retry queue of one step.
func (k *checker) retry(q queueInfo, step time.Duration) {
	switch n, ok := q.number("message-ttl"); {
	case !ok:
		k.add(q.Name, Fault, fmt.Sprintf("has no TTL: messages stay in it; when it is empty, delete it and declare it with x-message-ttl %d", step.Milliseconds()))
	case n != step.Milliseconds():
		k.add(q.Name, Remark, fmt.Sprintf("delays by %s, not by %s as its name says: %s", time.Duration(n)*time.Millisecond, step, "see the policy "+orText(q.Policy, "or the arguments of the queue")))
	}
	exchange, routed := q.text("dead-letter-exchange")
	key, _ := q.text("dead-letter-routing-key")
	if !routed || exchange == "" && key != k.queue {
		k.add(q.Name, Fault, fmt.Sprintf("does not lead back to %q: when it is empty, delete it and declare it with x-dead-letter-exchange \"\" and x-dead-letter-routing-key %q", k.queue, k.queue))
	}
	if q.DeadLettering > 0 {
		k.add(q.Name, Fault, fmt.Sprintf("holds %d messages that are older than its TTL and cannot leave: queue %q is missing, full or down", q.DeadLettering, k.queue))
	}
	k.overflow(q)
}

// overflow has the rules that hold for all of them.
func (k *checker) overflow(q queueInfo) {
	overflow, _ := q.text("overflow")
	for _, limit := range []string{"max-length", "max-length-bytes"} {
		n, ok := q.number(limit)
		if ok && overflow != "reject-publish" && overflow != "reject-publish-dlx" {
			k.add(q.Name, Fault, fmt.Sprintf("drops its oldest messages beyond a %s of %d, confirmed ones too: %s", limit, n, q.policy(map[string]any{"overflow": "reject-publish"})))
		}
	}
	if n, ok := q.number("expires"); ok {
		k.add(q.Name, Fault, fmt.Sprintf("is deleted with its messages when nobody has used it for %s: %s", time.Duration(n)*time.Millisecond, q.without("expires")))
	}
}

// queueInfo is what the management API tells of a queue.
type queueInfo struct {
	Name      string         `json:"name"`
	Type      string         `json:"type"`
	Policy    string         `json:"policy"`
	Arguments map[string]any `json:"arguments"`
	// Policies holds what policy and operator policy come to.
	Policies map[string]any `json:"effective_policy_definition"`
	// DeadLettering counts messages that are dead and not yet where they are to go
	// (quorum queues, at least once).
	DeadLettering int64 `json:"messages_dlx"`

	server serverVersion
	vhost  string
}

// text finds a setting: the argument wins over the policy.
func (q *queueInfo) text(name string) (string, bool) {
	if s, ok := q.Arguments["x-"+name].(string); ok {
		return s, true
	}
	s, ok := q.Policies[name].(string)
	return s, ok
}

// number finds a limit: the smaller of argument and policy rules.
func (q *queueInfo) number(name string) (int64, bool) {
	a, inArguments := whole(q.Arguments["x-"+name])
	p, inPolicies := whole(q.Policies[name])
	switch {
	case inArguments && inPolicies:
		return min(a, p), true
	case inArguments:
		return a, true
	}
	return p, inPolicies
}

func whole(v any) (int64, bool) {
	f, ok := v.(float64)
	return int64(f), ok
}

// deliveryLimit is false when there is none. From 4.0 on there is one of 20 where
// nothing is said, and -1 says none unless argument and policy disagree; before,
// -1 drops a message that comes back. (resolve_delivery_limit in
// rabbit_quorum_queue.erl.)
func (q *queueInfo) deliveryLimit() (int64, bool) {
	n, ok := q.number("delivery-limit")
	if q.server.major < 4 {
		return n, ok
	}
	if !ok {
		return 20, true
	}
	a, inArguments := whole(q.Arguments["x-delivery-limit"])
	if p, inPolicies := whole(q.Policies["delivery-limit"]); n < 0 && inArguments && inPolicies {
		n = max(a, p)
	}
	return n, n >= 0
}

// policy gives the command that adds settings to what policies say now: of
// several policies only the one with the highest priority counts.
func (q *queueInfo) policy(add map[string]any) string {
	all := make(map[string]any, len(q.Policies)+len(add))
	maps.Copy(all, q.Policies)
	maps.Copy(all, add)
	definition, err := json.Marshal(all)
	if err != nil {
		return "set a policy" // cannot be: it came from JSON
	}
	return fmt.Sprintf("rabbitmqctl set_policy -p '%s' --priority 100 --apply-to queues '%s' '^%s$' '%s'", q.vhost, q.Name, regexp.QuoteMeta(q.Name), definition)
}

// without says how to get rid of a setting.
func (q *queueInfo) without(name string) string {
	if _, ok := q.Arguments["x-"+name]; ok {
		return "when it is empty, delete the queue and declare it without x-" + name
	}
	return fmt.Sprintf("take %s out of policy %q, or give the queue one of its own without it", name, q.Policy)
}
