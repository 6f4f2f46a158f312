package dlq

import (
	"cmp"
	"strconv"
	"time"

	"github.com/sekali-mq/sekali/internal/letter"
)

// Metadata under which AMQP properties are found where a message has no typed
// delivery: the names of this project's AMQP marshaler.
func (m *Message) properties() map[string]string {
	p, names := m.Properties, make(map[string]string)
	number := func(n uint8) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(int(n))
	}
	timestamp := ""
	if !p.Timestamp.IsZero() {
		timestamp = p.Timestamp.UTC().Format(time.RFC3339)
	}
	for _, v := range [...][2]string{
		{"amqp-content-type", p.ContentType}, {"amqp-content-encoding", p.ContentEncoding}, {"amqp-correlation-id", p.CorrelationID},
		{"amqp-reply-to", p.ReplyTo}, {"amqp-type", p.Type}, {"amqp-app-id", p.AppID}, {"amqp-priority", number(p.Priority)},
		{metadataMessageID, p.MessageID}, {"amqp-timestamp", timestamp}, {"amqp-expiration", p.Expiration}, {"amqp-user-id", p.UserID},
		{"amqp-delivery-mode", number(p.DeliveryMode)},
	} {
		if v[1] != "" {
			names[v[0]] = v[1]
		}
	}
	return names
}

const (
	metadataMessageID = "amqp-message-id"
	jmsMessageID      = "JMSMessageID"
	// uuidHeader carries Watermill's UUID over AMQP.
	uuidHeader = "_watermill_message_uuid"

	// Metadata of Watermill's PoisonQueue.
	poisonReason     = "reason_poisoned"
	poisonTopic      = "topic_poisoned"
	poisonHandler    = "handler_poisoned"
	poisonSubscriber = "subscriber_poisoned"
)

// view shows the message of a letter to a key rule, as the consumer would see it.
type view struct{ *envelope }

func (v view) Header(name string) (any, bool) {
	if h, ok := v.Headers[name]; ok {
		if d, ok := h.(Decimal); ok {
			return d.String(), true
		}
		return h, true
	}
	if v.AMQP {
		p, ok := v.properties()[name]
		return p, ok
	}
	return nil, false
}

func (v view) MessageID() string {
	text := func(name string) string { t, _ := letter.Text(v.Headers[name]); return t }
	return cmp.Or(v.Properties.MessageID, text(metadataMessageID), text(jmsMessageID), v.UUID)
}

func (v view) Body() []byte { return v.Message.Body }

// header is the text of a header, "" without one.
func (m *Message) header(name string) string {
	t, _ := letter.Text(m.Headers[name])
	return t
}
