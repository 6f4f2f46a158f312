package rabbit

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/letter"
)

// UUIDHeader is the header in which Watermill's AMQP packages carry the
// message's UUID. A string there is the UUID; otherwise the message-id property
// is.
const UUIDHeader = "_watermill_message_uuid"

// Metadata names under which the AMQP properties of a received message are
// found. Those marked "sent" are turned back into properties by Marshal; the
// others are only read, because a message that copies the metadata of another
// must not take over its time, its user, its expiration.
const (
	MetadataContentType     = "amqp-content-type"     // sent
	MetadataContentEncoding = "amqp-content-encoding" // sent
	MetadataCorrelationID   = "amqp-correlation-id"   // sent
	MetadataReplyTo         = "amqp-reply-to"         // sent
	MetadataType            = "amqp-type"             // sent
	MetadataAppID           = "amqp-app-id"           // sent
	MetadataPriority        = "amqp-priority"         // sent, decimal
	MetadataMessageID       = "amqp-message-id"       // sent when the message has no UUID
	MetadataTimestamp       = "amqp-timestamp"        // RFC 3339, UTC
	MetadataExpiration      = "amqp-expiration"       // milliseconds
	MetadataUserID          = "amqp-user-id"
	MetadataDeliveryMode    = "amqp-delivery-mode" // 1 transient, 2 persistent

	metadataPrefix = "amqp-"
)

// Marshaler turns messages into AMQP messages and back. It has the shape of the
// Marshaler of watermill-amqp v3, so that either can be given to the other's
// configuration.
type Marshaler interface {
	Marshal(msg *message.Message) (amqp.Publishing, error)
	Unmarshal(d amqp.Delivery) (*message.Message, error)
}

// DefaultMarshaler reads the messages of any producer and never fails on one.
//
// Received headers become metadata: strings as they are, byte arrays as the
// same bytes, integers in decimal, floats in the shortest form that reads back,
// true and false, times in RFC 3339 and UTC. Nil, arrays and tables have no text
// form and are not in the metadata; our Subscriber keeps every header with its
// type in the message's context. The properties are found under the Metadata
// names, which win over headers of the same name.
//
// Sent metadata become string headers, except: the Metadata names, the headers
// that the broker owns (x-death and its kind), and names beginning with
// "sekali-".
//
// The zero value is ready. It keeps no state.
type DefaultMarshaler struct{}

var _ Marshaler = DefaultMarshaler{}

// Unmarshal never returns an error. The UUID is the header
// _watermill_message_uuid when that is a string, else the message-id, and may be
// empty: none is invented, since an invented one would be a new key for every
// delivery.
func (DefaultMarshaler) Unmarshal(d amqp.Delivery) (*message.Message, error) {
	msg := message.NewMessage(d.MessageId, d.Body)
	for name, v := range d.Headers {
		if name == UUIDHeader {
			if uuid, ok := v.(string); ok && uuid != "" {
				msg.UUID = uuid
			}
			continue
		}
		if dec, ok := v.(amqp.Decimal); ok {
			v = letter.Decimal{Scale: dec.Scale, Value: dec.Value}
		}
		if text, ok := letter.Text(v); ok {
			msg.Metadata[name] = text
		}
	}
	maps.Insert(msg.Metadata, received(d))
	return msg, nil
}

func received(d amqp.Delivery) func(yield func(string, string) bool) {
	return func(yield func(string, string) bool) {
		number := func(n uint8) string {
			if n == 0 {
				return ""
			}
			return strconv.Itoa(int(n))
		}
		timestamp := ""
		if !d.Timestamp.IsZero() {
			timestamp = d.Timestamp.UTC().Format(time.RFC3339)
		}
		for _, p := range [...][2]string{
			{MetadataContentType, d.ContentType}, {MetadataContentEncoding, d.ContentEncoding},
			{MetadataCorrelationID, d.CorrelationId}, {MetadataReplyTo, d.ReplyTo}, {MetadataType, d.Type},
			{MetadataAppID, d.AppId}, {MetadataPriority, number(d.Priority)}, {MetadataMessageID, d.MessageId},
			{MetadataTimestamp, timestamp}, {MetadataExpiration, d.Expiration}, {MetadataUserID, d.UserId},
			{MetadataDeliveryMode, number(d.DeliveryMode)},
		} {
			if p[1] != "" && !yield(p[0], p[1]) {
				return
			}
		}
	}
}

// Marshal makes a persistent message with the present time as its timestamp.
// Its message-id is the UUID; without one, the metadata amqp-message-id; without
// that, none.
func (DefaultMarshaler) Marshal(msg *message.Message) (amqp.Publishing, error) {
	return marshal(msg, false), nil
}

func marshal(msg *message.Message, ours bool) amqp.Publishing {
	m := msg.Metadata
	p := amqp.Publishing{
		DeliveryMode: amqp.Persistent, Timestamp: time.Now(), Body: msg.Payload,
		ContentType: m[MetadataContentType], ContentEncoding: m[MetadataContentEncoding],
		CorrelationId: m[MetadataCorrelationID], ReplyTo: m[MetadataReplyTo], Type: m[MetadataType], AppId: m[MetadataAppID],
		MessageId: msg.UUID,
	}
	if p.MessageId == "" {
		p.MessageId = m[MetadataMessageID]
	}
	if n, err := strconv.ParseUint(m[MetadataPriority], 10, 8); err == nil {
		p.Priority = uint8(n)
	}
	headers := make(amqp.Table, len(m)+1)
	for name, v := range m {
		if property(name) || letter.Broker(name) || letter.Ours(name) && !ours {
			continue
		}
		headers[name] = v
	}
	if msg.UUID != "" {
		headers[UUIDHeader] = msg.UUID
	}
	p.Headers = headers
	return p
}

func property(name string) bool {
	if !strings.HasPrefix(name, metadataPrefix) {
		return false
	}
	switch name {
	case MetadataContentType, MetadataContentEncoding, MetadataCorrelationID, MetadataReplyTo, MetadataType, MetadataAppID,
		MetadataPriority, MetadataMessageID, MetadataTimestamp, MetadataExpiration, MetadataUserID, MetadataDeliveryMode:
		return true
	}
	return false
}

// delivered gives the neutral form of a delivery.
func delivered(queue string, d amqp.Delivery) *letter.Delivery {
	return &letter.Delivery{
		Queue: queue, Exchange: d.Exchange, RoutingKey: d.RoutingKey, Redelivered: d.Redelivered,
		Properties: letter.Properties{
			ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode, Priority: d.Priority,
			CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageID: d.MessageId,
			Timestamp: d.Timestamp, Type: d.Type, UserID: d.UserId, AppID: d.AppId,
		},
		Headers: neutral(d.Headers), Body: d.Body,
	}
}

// again gives the message with which a delivery is put into another queue. set
// is the present metadata of the message.
func again(d *letter.Delivery, set map[string]string) amqp.Publishing {
	props, headers := letter.Outgoing(d, set)
	table := make(amqp.Table, len(headers))
	maps.Copy(table, headers)
	p := amqp.Publishing{
		Headers: table, ContentType: props.ContentType, ContentEncoding: props.ContentEncoding,
		DeliveryMode: amqp.Persistent, // a letter must survive a restart, whatever its sender thought
		Priority:     props.Priority, CorrelationId: props.CorrelationID, ReplyTo: props.ReplyTo, MessageId: props.MessageID,
		Timestamp: props.Timestamp, Type: props.Type, AppId: props.AppID, Body: d.Body,
	}
	if p.Timestamp.IsZero() {
		p.Timestamp = time.Now()
	}
	return p
}
