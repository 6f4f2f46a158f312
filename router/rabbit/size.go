package rabbit

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// maxShort is the longest AMQP short string: names, routing keys, properties.
	maxShort = 255
	// frameOverhead of a header frame: frame header and end (8), class, weight,
	// body size, property flags (14).
	frameOverhead = 22
	// Largest message a broker takes by default, before and since RabbitMQ 4.0.
	maxBodyOld, maxBodyNew = 128 << 20, 16 << 20
)

// outgoing is a message ready for the wire.
type outgoing struct {
	exchange, key string
	amqp.Publishing
	headerSize int
	optional   bool // no queue needs to want it
}

// check converts the headers and proves that the client can write what is in p
// without loss, and that headers and properties fit one frame of any size that
// is left to negotiate. The frame itself is checked with fits.
func check(exchange, key string, p amqp.Publishing) (outgoing, error) {
	table, n, err := wire(p.Headers)
	if err != nil {
		return outgoing{}, err
	}
	p.Headers = table
	size := frameOverhead + n
	for _, s := range []struct{ name, value string }{
		{"exchange", exchange}, {"routing key", key},
		{"content-type", p.ContentType}, {"content-encoding", p.ContentEncoding}, {"correlation-id", p.CorrelationId},
		{"reply-to", p.ReplyTo}, {"expiration", p.Expiration}, {"message-id", p.MessageId}, {"type", p.Type},
		{"user-id", p.UserId}, {"app-id", p.AppId},
	} {
		if len(s.value) > maxShort {
			return outgoing{}, fmt.Errorf("%s has %d bytes, at most %d fit: %w", s.name, len(s.value), maxShort, ErrTooLarge)
		}
		size += 1 + len(s.value)
	}
	size += 1 + 1 + 8 // delivery mode, priority, timestamp
	return outgoing{exchange: exchange, key: key, Publishing: p, headerSize: size}, nil
}

// fits proves that the broker of this connection takes the message.
func (o *outgoing) fits(frameMax, maxBody int) error {
	if frameMax > 0 && o.headerSize > frameMax {
		return fmt.Errorf("headers and properties take %d bytes, one frame of this broker holds %d: %w", o.headerSize, frameMax, ErrTooLarge)
	}
	if len(o.Body) > maxBody {
		return fmt.Errorf("body has %d bytes, limit %d (PublisherConfig.MaxBody, max_message_size of the broker): %w", len(o.Body), maxBody, ErrTooLarge)
	}
	return nil
}
