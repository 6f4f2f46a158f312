package middleware

import (
	"cmp"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/internal/letter"
)

const (
	// amqpMessageID is the metadata in which our AMQP marshaler keeps the message-id
	// property; with watermill-amqp's subscriber that is all there is of it.
	amqpMessageID = "amqp-message-id"
	// jmsMessageID is the header in which RabbitMQ's JMS client sends JMSMessageID.
	jmsMessageID = "JMSMessageID"
)

// view shows a Watermill message to a key rule. Where the transport left the
// typed delivery in the context its headers and its message id count; metadata
// is a rendering of them.
type view struct{ msg *message.Message }

func (v view) Header(name string) (any, bool) {
	if d, ok := letter.FromContext(v.msg.Context()); ok {
		if h, ok := d.Headers[name]; ok {
			if n, ok := h.(letter.Decimal); ok {
				return n.String(), true // keys know no AMQP types
			}
			return h, true
		}
	}
	if s, ok := v.msg.Metadata[name]; ok {
		return s, true
	}
	return nil, false
}

func (v view) MessageID() string {
	if d, ok := letter.FromContext(v.msg.Context()); ok && d.Properties.MessageID != "" {
		return d.Properties.MessageID
	}
	return cmp.Or(v.msg.Metadata[amqpMessageID], v.msg.Metadata[jmsMessageID], v.msg.UUID)
}

func (v view) Body() []byte { return v.msg.Payload }
