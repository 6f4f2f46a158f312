package letter

import (
	"context"
	"math/big"
	"strings"
	"time"
)

// Delivery is one hand-over of a message by the broker, as it was on the wire.
// It is shared by everybody who sees the message: read it, never change it.
type Delivery struct {
	// Queue it was consumed from.
	Queue string
	// Exchange it was published to; empty is the default exchange.
	Exchange string
	// RoutingKey it was published with.
	RoutingKey string
	// Redelivered is the broker's flag: it may have been delivered before.
	Redelivered bool
	// Properties of the message.
	Properties Properties
	// Headers with the types they have on the wire: nil, bool, int8, int16,
	// int32, int64, uint8, uint16, uint32, float32, float64, string, []byte,
	// time.Time (whole seconds), Decimal, []any and map[string]any of these.
	Headers map[string]any
	// Body is the payload.
	Body []byte
}

// Properties are the AMQP basic properties. An empty value is an absent one,
// as it is for AMQP clients in Go.
type Properties struct {
	ContentType     string
	ContentEncoding string
	// DeliveryMode is 2 for persistent messages.
	DeliveryMode  uint8
	Priority      uint8
	CorrelationID string
	ReplyTo       string
	// Expiration in milliseconds, as text.
	Expiration string
	MessageID  string
	// Timestamp in whole seconds.
	Timestamp time.Time
	Type      string
	UserID    string
	AppID     string
}

// Decimal is the AMQP decimal: Value / 10^Scale.
type Decimal struct {
	Scale uint8
	Value int32
}

// String gives plain decimal notation: Decimal{2, 12345} is 123.45.
func (d Decimal) String() string {
	s := big.NewInt(int64(d.Value)).String()
	neg := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(s, "-")
	if n := int(d.Scale); n > 0 {
		if len(s) <= n {
			s = strings.Repeat("0", n-len(s)+1) + s
		}
		s = s[:len(s)-n] + "." + s[len(s)-n:]
	}
	if neg {
		return "-" + s
	}
	return s
}

// DeliveryCount tells how often a quorum queue has returned the message before.
// False where the broker does not say: on the first delivery, and always on
// classic queues.
func (d *Delivery) DeliveryCount() (int64, bool) { return Int(d.Headers[headerDeliveryCount]) }

// Origin tells where the message was first consumed and published: by our
// headers when it has been through a retry queue, else by the delivery itself.
func (d *Delivery) Origin() (queue, exchange, routingKey string) {
	q, ok := d.Headers[HeaderQueue].(string)
	if !ok {
		return d.Queue, d.Exchange, d.RoutingKey
	}
	exchange, _ = d.Headers[HeaderExchange].(string)
	routingKey, _ = d.Headers[HeaderRoutingKey].(string)
	return q, exchange, routingKey
}

type contextKey struct{}

// WithDelivery puts the delivery of a message into its context.
func WithDelivery(ctx context.Context, d *Delivery) context.Context {
	return context.WithValue(ctx, contextKey{}, d)
}

// FromContext returns the delivery of the message whose context this is. False
// when the message did not come from our AMQP subscriber.
func FromContext(ctx context.Context) (*Delivery, bool) {
	d, ok := ctx.Value(contextKey{}).(*Delivery)
	return d, ok && d != nil
}
