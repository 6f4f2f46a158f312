package inbox

// Message is what a Key sees of a message, whatever the transport.
type Message interface {
	// Header returns the value of a header as the transport has it: a string, or
	// a typed AMQP value; HeaderText says what a key makes of it. Names are
	// compared byte by byte. A content type that is no header (the AMQP property)
	// must be found under "amqp-content-type" or "content-type".
	Header(name string) (any, bool)
	// MessageID is the broker's message ID (AMQP message-id, JMSMessageID, the
	// Watermill UUID where the Pub/Sub carries it on the wire); "" if absent.
	MessageID() string
	// Body is the payload. It must not be changed.
	Body() []byte
}

// Key derives the idempotency key of a message. Built-in keys are data (see
// ParseKey) and are registered with the consumer under their String; KeyFunc
// makes a Key of your own code.
//
// The same message must always give the same key, on every delivery and by
// every instance. Of is called concurrently.
type Key interface {
	// Of returns the key. It returns an error that wraps ErrNoKey when the message
	// has none, and Skip when the message is to be acknowledged unhandled.
	Of(m Message) (string, error)
	// String is the rule's registered form.
	String() string
}
