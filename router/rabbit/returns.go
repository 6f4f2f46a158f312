package rabbit

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// sortReturns gives each returned message to the request it belongs to. A
// return names no delivery tag, and ordinary publishes carry no header of ours,
// so it is told by its content. Returns come in the order of publishing: of
// several that are equal in all that a receiver could see, the oldest is the
// one, or one that is not to be told from it. Where it is not clear which of
// several different ones came back, none of them counts as confirmed.
func (p *pubChannel) sortReturns() {
	for {
		select {
		case ret, ok := <-p.returns:
			if !ok {
				p.returns = nil
				return
			}
			p.assign(&ret)
		default:
			return
		}
	}
}

func (p *pubChannel) assign(ret *amqp.Return) {
	var like, equal []*request
	for _, r := range p.flying {
		if r.ret != nil || r.out.optional || !alike(r.out, ret) {
			continue
		}
		like = append(like, r)
		if sameHeaders(r.out.Headers, ret.Headers) {
			equal = append(equal, r)
		}
	}
	switch {
	case len(equal) > 0:
		equal[0].ret = ret
	case len(like) == 1: // an interceptor of the broker changed its headers
		like[0].ret = ret
	case len(like) == 0:
		p.strange = true
	default:
		for _, r := range like {
			r.unsure = true
		}
	}
}

func alike(o *outgoing, ret *amqp.Return) bool {
	return o.exchange == ret.Exchange && o.key == ret.RoutingKey && o.MessageId == ret.MessageId &&
		o.CorrelationId == ret.CorrelationId && bytes.Equal(o.Body, ret.Body)
}

// sameHeaders compares as printed with types; maps print in key order.
func sameHeaders(a, b amqp.Table) bool {
	if len(a) != len(b) {
		return false
	}
	return fmt.Sprintf("%#v", onWire(a)) == fmt.Sprintf("%#v", onWire(b))
}

// onWire replaces what does not come back as it was written: times, which have
// whole seconds on the wire.
func onWire(v any) any {
	switch v := v.(type) {
	case time.Time:
		return [1]int64{v.Unix()}
	case amqp.Table:
		out := make(map[string]any, len(v))
		for name, e := range v {
			out[name] = onWire(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = onWire(v[i])
		}
		return out
	}
	return v
}

// isQuoted finds a name as RabbitMQ quotes it in its errors.
func isQuoted(text, name string) bool { return strings.Contains(text, "'"+name+"'") }
