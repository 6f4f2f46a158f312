package dlq

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// death is what a message from a dead letter queue tells.
type death struct {
	Letter
	envelope *envelope
	encoded  []byte
	// bodyPrint compares bodies where one of two fingerprints was guessed.
	bodyPrint []byte
	// content tells letters without a key apart.
	content string
	// redrive says which letter it is, by its own account; 0 for none.
	redrive int64
	n       int64
}

// maxQueue is AMQP's bound on names.
const maxQueue = 255

// read reads a message. The error is for good: the message cannot be stored.
// Errors of an inbox come from resolve.
func readDeath(msg *message.Message, c CollectorConfig, retryQueue func(string) bool) (*death, error) {
	d := &death{envelope: envelopeOf(msg)}
	if del, ok := letter.FromContext(msg.Context()); ok {
		d.Source = del.Queue
	} else {
		d.Source = message.SubscribeTopicFromCtx(msg.Context())
	}
	d.Source = cmp.Or(c.Source, d.Source)
	d.origin(c, retryQueue)
	if len(d.Queue) > maxQueue || len(d.Source) > maxQueue || d.Queue != clean(d.Queue, maxQueue) || d.Source != clean(d.Source, maxQueue) {
		return nil, fmt.Errorf("queue %.60q or %.60q is no name of a queue", d.Queue, d.Source)
	}
	d.facts()
	var err error
	if d.encoded, err = d.envelope.encode(); err != nil {
		return nil, err
	}
	d.Size = int64(len(d.envelope.Body))
	d.content, err = digest(d.Source, d.Queue, d.envelope)
	return d, err
}

// envelopeOf keeps all of a message.
func envelopeOf(msg *message.Message) *envelope {
	if del, ok := letter.FromContext(msg.Context()); ok {
		return &envelope{AMQP: true, Message: Message{
			UUID: msg.UUID, Exchange: del.Exchange, RoutingKey: del.RoutingKey, Properties: del.Properties, Headers: del.Headers, Body: del.Body,
		}}
	}
	headers := make(map[string]any, len(msg.Metadata))
	for name, v := range msg.Metadata {
		headers[name] = v
	}
	return &envelope{Message: Message{UUID: msg.UUID, Headers: headers, Body: msg.Payload}}
}

// headerDeliveryCount counts deliveries, so that it differs between two of one
// letter.
const headerDeliveryCount = "x-delivery-count"

// digest names the content of a letter: two deliveries of one have the same.
func digest(source, queue string, e *envelope) (string, error) {
	same := *e
	if _, counted := e.Headers[headerDeliveryCount]; counted {
		same.Headers = maps.Clone(e.Headers)
		delete(same.Headers, headerDeliveryCount)
	}
	b, err := same.encode()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(source), []byte(queue), b, e.Body} {
		h.Write([]byte(strconv.Itoa(len(part)) + ":"))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// origin tells the queue it died in, why, and when.
func (d *death) origin(c CollectorConfig, retryQueue func(string) bool) {
	m := &d.envelope.Message
	reason, broker := Unexplained, ""
	entries, _ := m.Headers["x-death"].([]any)
	for _, e := range entries {
		table, _ := e.(map[string]any)
		queue, _ := letter.Text(table["queue"])
		if queue == "" || queue == d.Source || retryQueue(queue) {
			continue
		}
		broker = queue
		if text, ok := letter.Text(table["reason"]); ok {
			reason = Reason(clean(text, 32)) //nolint:mnd // width of the column
		}
		d.DiedAt, _ = table["time"].(time.Time)
		break
	}
	fallback := strings.TrimSuffix(d.Source, ".dlq")
	if fallback == d.Source {
		fallback = "" // it would be sent to where it lies
	}
	if c.Queue != nil {
		fallback = c.Queue(d.Source)
	}
	d.Queue = cmp.Or(m.header(letter.HeaderQueue), broker, m.header(poisonTopic), fallback)
	d.Reason = reason
	switch {
	case m.header(letter.HeaderReason) != "":
		d.Reason, d.Error = Failed, m.header(letter.HeaderReason)
	case m.header(poisonReason) != "":
		d.Reason, d.Error = Poisoned, m.header(poisonReason)
	}
	d.Error = clean(d.Error, maxText)
}

// facts reads what the consumer and a redrive wrote.
func (d *death) facts() {
	m := &d.envelope.Message
	d.bodyPrint = inbox.Fingerprint(m.Body)
	if n, err := strconv.Atoi(m.header(letter.HeaderAttempt)); err == nil {
		d.Attempts = max(0, min(n, 1<<20))
	}
	d.FirstFailure = textTime(m.header(letter.HeaderFirstFailure))
	d.ClaimedAt = textTime(m.header(letter.HeaderClaimedAt))
	d.DiedAt = sane(d.DiedAt)
	if f, err := hex.DecodeString(m.header(letter.HeaderFingerprint)); err == nil && len(f) > 0 && len(f) <= maxQueue {
		d.Fingerprint = f
	} else {
		d.Fingerprint, d.FingerprintGuessed = d.bodyPrint, true
	}
	id, n, ok := strings.Cut(m.header(letter.HeaderRedrive), "/")
	if ok {
		d.redrive, _ = strconv.ParseInt(id, 10, 64)
		d.n, _ = strconv.ParseInt(n, 10, 64)
		if d.redrive <= 0 || d.n <= 0 || d.n > 1<<20 {
			d.redrive, d.n = 0, 0
		}
	}
}

func textTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return sane(t)
}

// sane drops times that not every database keeps.
func sane(t time.Time) time.Time {
	if y := t.UTC().Year(); y < 1971 || y > 9000 {
		return time.Time{}
	}
	return t.UTC()
}

// resolve finds the consumer and the key. An error is one of an inbox that does
// not answer: the letter is not lost, it is collected later.
func (d *death) resolve(ctx context.Context, r *registry) error {
	m := &d.envelope.Message
	rows, err := r.all(ctx)
	if err != nil {
		return err
	}
	name := ""
	if m.header(letter.HeaderReason) != "" { // written by the consumer with the letter
		name = m.header(letter.HeaderConsumer)
	}
	c, err := findConsumer(rows, name, d.Queue, m.header(poisonHandler), d.envelope.AMQP)
	if err != nil {
		d.NoKey = err.Error()
		if usable(name, inbox.MaxConsumerBytes) {
			d.Consumer = name
		}
	} else {
		d.Consumer = c.Name
	}
	given, _ := letter.KeyFor(m.header(letter.HeaderKey), names(c, d.Consumer)...)
	key := m.header(letter.HeaderLetterKey)
	switch {
	case d.Consumer == "":
	case name != "" && usable(key, inbox.MaxKeyBytes):
		d.Key, d.NoKey = key, ""
	case name != "":
		d.NoKey = "its consumer found no key"
	case given != "":
		d.Key, d.NoKey = inbox.StoredKey(given), ""
	case c == nil:
	case c.key == nil:
		d.NoKey = fmt.Sprintf("key rule %q: %s", c.KeyRule, c.rule)
	default:
		key, err := c.key.Of(view{d.envelope})
		switch {
		case err == nil && !inbox.BlankKey(key):
			d.Key, d.NoKey = inbox.StoredKey(key), ""
		case errors.Is(err, inbox.Skip):
			d.NoKey = "its consumer skips such messages"
		default:
			d.NoKey = fmt.Sprintf("key rule %q: %v", c.KeyRule, cmp.Or(err, inbox.ErrNoKey))
		}
	}
	d.NoKey = clean(d.NoKey, maxText)
	d.Shape = shape(d.Error, d.Key)
	d.Kind = kindOf(d.Queue, d.Reason, d.Shape)
	return nil
}

// names of a consumer, present and former.
func names(c *registered, name string) []string {
	if c == nil {
		return []string{name}
	}
	return append([]string{c.Name}, c.FormerNames...)
}

// usable tells a name or key in its stored form: what is not, nobody wrote who
// means well.
func usable(text string, most int) bool {
	return text != "" && len(text) <= most && utf8.ValidString(text) && !inbox.BlankKey(text) &&
		strings.IndexFunc(text, func(r rune) bool { return r < 0x20 || r == 0x7f }) < 0
}

// identity is what copies have in common; "" without a key.
func identity(queue, consumer, key string, fingerprint []byte) string {
	if key == "" {
		return ""
	}
	h := sha256.New()
	for _, part := range []string{queue, consumer, key, string(fingerprint)} {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return hex.EncodeToString(h.Sum(nil))
}
