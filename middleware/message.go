package middleware

import (
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/internal/letter"
)

// jmsMessageID is the header in which RabbitMQ's JMS client sends JMSMessageID.
const jmsMessageID = "JMSMessageID"

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
	if id := v.msg.Metadata[jmsMessageID]; id != "" {
		return id
	}
	return v.msg.UUID
}

func (v view) Body() []byte { return v.msg.Payload }
