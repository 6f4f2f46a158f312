package inbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// MaxConsumerBytes is the longest consumer name, in bytes.
	MaxConsumerBytes = 100
	// MaxKeyBytes is the longest key that is stored as it is, in bytes. Longer
	// ones are stored as a hash, see StoredKey.
	MaxKeyBytes = 200

	hashPrefix = "sha256:"
)

// Claim names one business intent for one consumer. Two deliveries with the
// same Consumer and Key are copies of each other: their effect is committed
// at most once.
type Claim struct {
	// Consumer is the name under which a handler remembers keys, by default the
	// queue. At most MaxConsumerBytes.
	Consumer string
	// Key is the idempotency key, any non-blank bytes. How it is stored is the
	// engine's business, see StoredKey.
	Key string
	// Fingerprint identifies the content, see Fingerprint. Nil is not compared.
	Fingerprint []byte
}

// String quotes the key: it may hold any bytes.
func (c Claim) String() string { return fmt.Sprintf("%s/%q", c.Consumer, c.Key) }

// StoredKey returns the form in which a key is kept in the message_key column,
// the same for every database: the key itself, or "sha256:" and the hex digest
// of its exact bytes when it is longer than MaxKeyBytes, is not UTF-8, holds a
// control character (U+0000-001F, 007F) or itself begins with "sha256:". The
// last rule keeps the mapping injective: no key can be chosen to equal
// another one's hash.
func StoredKey(key string) string {
	if len(key) <= MaxKeyBytes && utf8.ValidString(key) && !strings.HasPrefix(key, hashPrefix) &&
		strings.IndexFunc(key, func(r rune) bool { return r < 0x20 || r == 0x7f }) < 0 {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// BlankKey reports whether a key counts as absent: empty, or only spaces and
// tabs. Nothing else is trimmed.
func BlankKey(key string) bool { return strings.Trim(key, " \t") == "" }

// stored validates a claim and returns it in the form in which stores see it.
func (c Claim) stored() (Claim, error) {
	switch {
	case c.Consumer == "":
		return c, fmt.Errorf("claim key %q: consumer name is empty: give the queue or a name of your own", c.Key)
	case len(c.Consumer) > MaxConsumerBytes:
		return c, fmt.Errorf("claim key %q: consumer name %q has %d bytes, at most %d fit: name the consumer yourself", c.Key, c.Consumer, len(c.Consumer), MaxConsumerBytes)
	case !utf8.ValidString(c.Consumer) || strings.IndexFunc(c.Consumer, func(r rune) bool { return r < 0x20 || r == 0x7f }) >= 0:
		return c, fmt.Errorf("claim key %q: consumer name %q must be UTF-8 without control characters", c.Key, c.Consumer)
	case BlankKey(c.Key):
		return c, Permanent(fmt.Errorf("claim for consumer %q: %w", c.Consumer, ErrNoKey))
	}
	c.Key = StoredKey(c.Key)
	return c, nil
}

// fingerprintVersion is the first byte of what Fingerprint returns. Raise it
// when the rule changes: fingerprints of different versions are not compared.
const fingerprintVersion = 1

// fingerprintBytes of the digest are kept: 128 bits find a changed payload,
// they are not a signature.
const fingerprintBytes = 16

// Fingerprint returns the versioned short hash of what identifies the content
// of a message. The same key with another fingerprint is a Conflict.
func Fingerprint(content []byte) []byte {
	sum := sha256.Sum256(content)
	return append([]byte{fingerprintVersion}, sum[:fingerprintBytes]...)
}

// splitMark is the reserved fingerprint of a split claim. Version 0 is used by
// nothing else.
var splitMark = []byte{0}

// SplitMark is what a Store writes into the fingerprint column of a claim that
// was committed without (all of) its writes.
func SplitMark() []byte { return bytes.Clone(splitMark) }

// Record is what a store knows of one claim.
type Record struct {
	Claim Claim
	// New: this session inserted the claim and holds it (Begin only).
	New bool
	// Found: a committed row exists. In Begin, a record that is neither New nor
	// Found contradicts itself; the engine tries once more and then fails.
	Found bool
	// Fingerprint of the found row; nil when it has none.
	Fingerprint []byte
	// ProcessedAt of the row, by the database's clock: of the found one, or of the
	// one just inserted where the store has it for free.
	ProcessedAt time.Time
	// Age of the found row when it was read, by the database's clock.
	Age time.Duration
	// Horizon of the consumer (Lookup only): before this time an absent claim
	// proves nothing. Zero when the consumer is not registered.
	Horizon time.Time
}

// Split reports whether the found claim is marked as committed without its
// writes.
func (r Record) Split() bool { return r.Found && bytes.Equal(r.Fingerprint, splitMark) }

// judge tells what a committed claim makes of a later copy.
func (r Record) judge(c Claim) Outcome {
	switch {
	case r.Split():
		return Conflict
	case len(r.Fingerprint) == 0 || len(c.Fingerprint) == 0:
		return Duplicate
	case r.Fingerprint[0] != c.Fingerprint[0]:
		return Duplicate // another rule version is not compared
	case !bytes.Equal(r.Fingerprint, c.Fingerprint):
		return Conflict
	}
	return Duplicate
}
