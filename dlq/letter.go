package dlq

import (
	"time"

	"github.com/sekali-mq/sekali/internal/letter"
)

// State of a letter.
type State string

// The states of a letter.
const (
	// Waiting: it can be redriven.
	Waiting State = "waiting"
	// Sending: a run is publishing it, or did so and does not know what became of
	// it. The next run sends it again.
	Sending State = "sending"
	// Sent: the broker confirmed it. It comes back to waiting if it dies again.
	Sent State = "sent"
	// Resolved: its claim proves that it took effect, or it was merged into another
	// letter.
	Resolved State = "resolved"
	// Parked: set aside, by an operator or because it came back too often.
	Parked State = "parked"
	// Discarded: given up by an operator.
	Discarded State = "discarded"
)

// States lists all states, in the order of a letter's life.
func States() []State { return []State{Waiting, Sending, Sent, Resolved, Parked, Discarded} }

// Reason says in one word why a message became a letter.
type Reason string

// The reasons of letters. RabbitMQ's own come from x-death.
const (
	// Failed: a consumer that runs this project's stack gave it up.
	Failed Reason = "failed"
	// Poisoned: Watermill's PoisonQueue put it there.
	Poisoned Reason = "poisoned"
	// Rejected by a consumer without requeue.
	Rejected Reason = "rejected"
	// Expired by a time to live.
	Expired Reason = "expired"
	// MaxLen: the queue was full.
	MaxLen Reason = "maxlen"
	// DeliveryLimit: it was returned too often, or killed its consumers.
	DeliveryLimit Reason = "delivery_limit"
	// Unexplained: nothing on the message tells.
	Unexplained Reason = "unexplained"
)

// Properties of an AMQP message.
type Properties = letter.Properties

// Decimal is the AMQP decimal in headers: Value / 10^Scale.
type Decimal = letter.Decimal

// Letter is one dead letter. Times are by the clock of the letters' database,
// unless it says otherwise; a zero time or an empty text means that it is not
// known.
type Letter struct {
	// ID counts up with every letter collected.
	ID int64
	// State it is in.
	State State
	// Queue it died in, to which a redrive puts it; a topic where there are no
	// queues.
	Queue string
	// Source is the dead letter queue that it was collected from.
	Source string
	// Consumer that it died at, or whose queue it died in. Empty for a letter of a
	// foreign queue.
	Consumer string
	// Key in stored form, see inbox.StoredKey; "" when there is none.
	Key string
	// NoKey says why there is no key.
	NoKey string
	// Fingerprint of the content.
	Fingerprint []byte
	// FingerprintGuessed: computed from the body, because the letter did not carry
	// the consumer's own.
	FingerprintGuessed bool
	// Reason in one word.
	Reason Reason
	// Error is the text that came with it.
	Error string
	// Kind groups letters of one queue, reason and shape of error. See Kinds.
	Kind string
	// Shape is the error with digits and ids masked.
	Shape string
	// Attempts that had failed when it died.
	Attempts int
	// FirstFailure by the clock of the consumer.
	FirstFailure time.Time
	// DiedAt by the clock of the broker.
	DiedAt time.Time
	// ClaimedAt is the time at which a failed attempt held the claim, by the clock
	// of the consumer's database.
	ClaimedAt time.Time
	// CollectedAt is when it was stored.
	CollectedAt time.Time
	// ChangedAt is when its state last changed.
	ChangedAt time.Time
	// Age since it was collected, when it was read.
	Age time.Duration
	// Seen counts the copies that were collected as this letter.
	Seen int
	// Redrives counts how often it was put back.
	Redrives int
	// Run that last took it up.
	Run string
	// CopyOf names an earlier letter with the same content and no key: this one may
	// be a second delivery of it.
	CopyOf int64
	// MergedInto names the waiting letter of the same claim that it became part of.
	MergedInto int64
	// Size of the body in bytes.
	Size int64
	// Message as it was; nil in lists, see Get.
	Message *Message
}

// Message is the message of a letter, as it came from the broker.
type Message struct {
	// UUID of the Watermill message; the message-id of a foreign one.
	UUID string
	// Exchange and RoutingKey it was published with when it became a letter.
	Exchange, RoutingKey string
	// Properties of AMQP; zero for other Pub/Subs.
	Properties Properties
	// Headers with their types: nil, bool, int8, int16, int32, int64, uint8, uint16,
	// uint32, float32, float64, string, []byte, time.Time, Decimal, []any and
	// map[string]any of these. Metadata of other Pub/Subs are strings.
	Headers map[string]any
	// Body is the payload.
	Body []byte
}

// Event is one line of a letter's history. Lines are only added.
type Event struct {
	// Letter it is about.
	Letter int64
	// At by the clock of the letters' database.
	At time.Time
	// What happened: collected, seen, copy, sending, sent, back, failed, resolved,
	// merged, parked, reopened, discarded.
	What string
	// State after it.
	State State
	// Run that did it; "" for none.
	Run string
	// N is the number of the redrive; 0 for none.
	N int
	// Who did it and Why, of named acts.
	Who, Why string
	// Text has the error, or what else there is to say.
	Text string
}
