package rabbit

import "errors"

// Topics says what a Watermill topic is on the broker. A preset fills it; any
// field can be replaced afterwards.
//
//	preset                        publish to          with routing key   consume from          bound by
//	Queues()                      default exchange    topic              topic                 -
//	PubSub(service)               fanout "<topic>"    -                  "<topic>_<service>"   -
//	TopicExchange(ex, service)    topic exchange ex   topic              "<service>.<topic>"   topic (may hold * and #)
//
// The names of PubSub are those of watermill-amqp's durable Pub/Sub with
// GenerateQueueNameTopicNameWithSuffix(service), those of Queues of its durable
// queue: either library finds what the other declared.
type Topics struct {
	// Exchange that a topic is published to; "" is the default exchange.
	Exchange func(topic string) string
	// ExchangeKind for declaring: fanout, topic, direct or headers. Empty with the
	// default exchange.
	ExchangeKind string
	// RoutingKey that a topic is published with.
	RoutingKey func(topic string) string
	// Queue that a topic is consumed from. Instances of one service share it;
	// every service has its own.
	Queue func(topic string) string
	// BindingKey between exchange and queue. Not used with the default exchange.
	BindingKey func(topic string) string
}

// Queues maps a topic to the queue of that name, published to through the
// default exchange.
func Queues() Topics {
	return Topics{Exchange: none, RoutingKey: same, Queue: same, BindingKey: none}
}

// PubSub maps a topic to a fanout exchange of that name and, for each service, a
// queue of its own. Every service gets every message.
func PubSub(service string) Topics {
	return Topics{
		Exchange: same, ExchangeKind: "fanout", RoutingKey: none, BindingKey: none,
		Queue: func(topic string) string { return topic + "_" + service },
	}
}

// TopicExchange maps a topic to a routing key of one topic exchange. A topic to
// subscribe to may be a pattern: "orders.*", "orders.#".
func TopicExchange(exchange, service string) Topics {
	return Topics{
		Exchange: func(string) string { return exchange }, ExchangeKind: "topic", RoutingKey: same, BindingKey: same,
		Queue: func(topic string) string { return service + "." + topic },
	}
}

func same(topic string) string { return topic }
func none(string) string       { return "" }

// withDefaults is Queues for the zero value; otherwise all fields must be set.
func (t Topics) withDefaults() (Topics, error) {
	if t.Exchange == nil && t.RoutingKey == nil && t.Queue == nil && t.BindingKey == nil {
		return Queues(), nil
	}
	if t.Exchange == nil || t.RoutingKey == nil || t.Queue == nil || t.BindingKey == nil {
		return t, errors.New("Topics: Exchange, RoutingKey, Queue and BindingKey must all be set: begin with a preset")
	}
	return t, nil
}
