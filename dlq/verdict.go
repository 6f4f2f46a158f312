package dlq

// Verdict says what the consumer's inbox can prove of a letter.
type Verdict string

// The verdicts, from the one that may be sent to the one that needs a look.
const (
	// New: no claim, and proof that there was none: it can be sent.
	New Verdict = "new"
	// Processed: a claim with the same content: it needs no sending.
	Processed Verdict = "processed"
	// Conflict: a claim of the key with other content.
	Conflict Verdict = "conflict"
	// Split: a claim that was committed apart from its writes.
	Split Verdict = "split"
	// Unknown: nothing is proven; the judgement says why.
	Unknown Verdict = "unknown"
)

// Verdicts lists all verdicts.
func Verdicts() []Verdict { return []Verdict{New, Processed, Conflict, Split, Unknown} }

// Judgement is a verdict with its grounds.
type Judgement struct {
	// Verdict on the letter.
	Verdict Verdict
	// Compared: the content was compared with that of the claim. A Processed that
	// is not compared stays, unless RedriveConfig.TrustKey.
	Compared bool
	// Why in a sentence for an operator.
	Why string
	// Inbox that was asked, by the operator's name for it; "" for none.
	Inbox string
}
