package letter

// Prefix begins the name of every header that Sekali writes. Ordinary publishes
// carry none of them; retries, letters and redrives do.
const Prefix = "sekali-"

// Headers of retries, letters and redrives. All are written as text.
const (
	// HeaderAttempt is the number of attempts that failed so far, in decimal.
	HeaderAttempt = Prefix + "attempt"
	// HeaderWaits is the number of delayed waits in a row so far, in decimal. A wait
	// is no attempt: the database undid the run, or another one held the claim.
	HeaderWaits = Prefix + "waits"
	// HeaderFirstFailure is the time of the first failed attempt, RFC 3339 in UTC.
	HeaderFirstFailure = Prefix + "first-failure"
	// HeaderClaimedAt is the database's time at which a failed attempt held the
	// claim, RFC 3339 in UTC with fractions.
	HeaderClaimedAt = Prefix + "claimed-at"
	// HeaderHistory has one line for each stay in another queue, newest first:
	// time, reason, quoted queue, count. At most MaxHistory bytes.
	HeaderHistory = Prefix + "history"

	// HeaderLetterKey is the idempotency key under which the message was handled.
	HeaderLetterKey = Prefix + "letter-key"
	// HeaderConsumer is the consumer that gave the message up.
	HeaderConsumer = Prefix + "consumer"
	// HeaderFingerprint is the fingerprint of the content, in hex.
	HeaderFingerprint = Prefix + "fingerprint"
	// HeaderReason says why the message became a letter, see Reason.
	HeaderReason = Prefix + "reason"

	// HeaderDropped names the headers that did not fit beside ours, with blanks
	// between.
	HeaderDropped = Prefix + "dropped"

	// HeaderQueue is the queue the message was consumed from.
	HeaderQueue = Prefix + "queue"
	// HeaderExchange is the exchange it was first published to.
	HeaderExchange = Prefix + "exchange"
	// HeaderRoutingKey is the routing key it was first published with.
	HeaderRoutingKey = Prefix + "routing-key"
	// HeaderUserID keeps the user-id property, which only its own user may send.
	HeaderUserID = Prefix + "user-id"
	// HeaderExpiration keeps the expiration property, in milliseconds.
	HeaderExpiration = Prefix + "expiration"

	// HeaderKey is a key given by an operator: "<consumer>/<key>". It is read by
	// that consumer only, before its key rule.
	HeaderKey = Prefix + "key"
	// HeaderRedrive names the letter and the number of the redrive: "<letter>/<n>".
	HeaderRedrive = Prefix + "redrive"
)

// Headers that RabbitMQ owns.
const (
	headerDeath         = "x-death"
	headerDeliveryCount = "x-delivery-count"
	prefixFirstDeath    = "x-first-death-"
	prefixLastDeath     = "x-last-death-"
	headerCC            = "CC"
	headerBCC           = "BCC"
)
