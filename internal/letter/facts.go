package letter

import (
	"encoding/hex"
	"strconv"
	"time"
)

// Facts are what a consumer knows of a message that it puts into a retry queue
// or gives up. They travel as text headers.
type Facts struct {
	// Attempts that failed so far.
	Attempts int
	// Waits in a row so far.
	Waits int
	// FirstFailure of the message; zero when no attempt failed.
	FirstFailure time.Time
	// Queue, Exchange and RoutingKey the message first came by, see
	// Delivery.Origin.
	Queue, Exchange, RoutingKey string

	// Redriven: an operator put it back. Read only, see Before.
	Redriven bool

	// Reason of a letter; nil for a retry, which leaves out all below.
	Reason error
	// Consumer that gave it up.
	Consumer string
	// Key in stored form; "" when there was none.
	Key string
	// Fingerprint of the content.
	Fingerprint []byte
	// ClaimedAt is the database's time at which the last attempt held the claim.
	ClaimedAt time.Time
}

// Write puts the facts into the text headers of a message in place of those of
// an earlier retry or death.
func (f Facts) Write(headers map[string]string) {
	for _, name := range []string{
		HeaderAttempt, HeaderWaits, HeaderFirstFailure, HeaderReason, HeaderConsumer, HeaderLetterKey, HeaderFingerprint, HeaderClaimedAt,
	} {
		delete(headers, name)
	}
	headers[HeaderAttempt] = strconv.Itoa(f.Attempts)
	if f.Waits > 0 {
		headers[HeaderWaits] = strconv.Itoa(f.Waits)
	}
	setTime(headers, HeaderFirstFailure, f.FirstFailure)
	headers[HeaderQueue], headers[HeaderExchange], headers[HeaderRoutingKey] = f.Queue, f.Exchange, f.RoutingKey
	if f.Reason == nil {
		return
	}
	headers[HeaderReason] = Reason(f.Reason)
	set(headers, HeaderConsumer, f.Consumer)
	set(headers, HeaderLetterKey, f.Key)
	set(headers, HeaderFingerprint, hex.EncodeToString(f.Fingerprint))
	setTime(headers, HeaderClaimedAt, f.ClaimedAt)
}

func set(headers map[string]string, name, value string) {
	if value != "" {
		headers[name] = value
	}
}

func setTime(headers map[string]string, name string, at time.Time) {
	if !at.IsZero() {
		headers[name] = at.UTC().Format(time.RFC3339Nano)
	}
}

// maxCount bounds the counts that are read from headers, which anybody can
// write: arithmetic with them must not overflow.
const maxCount = 1 << 20

// Before reads how often earlier deliveries of a message were tried, and since
// when, from its text headers: Attempts, Waits, FirstFailure and Redriven. A message that
// bears a reason is a letter that somebody put back, by whatever means: it begins
// anew, or it would die of its old attempts.
func Before(headers map[string]string) (f Facts) {
	f.Redriven = headers[HeaderRedrive] != ""
	if headers[HeaderReason] != "" {
		return f
	}
	f.Attempts, f.Waits = count(headers[HeaderAttempt]), count(headers[HeaderWaits])
	if first := headers[HeaderFirstFailure]; first != "" {
		f.FirstFailure, _ = time.Parse(time.RFC3339Nano, first)
	}
	return f
}

func count(text string) int {
	if text == "" {
		return 0 // most messages; Atoi would make an error
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return max(0, min(n, maxCount))
}
