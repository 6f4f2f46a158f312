package inbox

// Outcome says what became of one run of a handler. The zero value is Failed,
// so that a forgotten return is never read as success.
type Outcome uint8

const (
	// Failed: nothing was committed, or it is not known whether anything was.
	Failed Outcome = iota
	// Processed: claim and business writes were committed together.
	Processed
	// Duplicate: the claim was already committed with the same content; the
	// handler was not called (in Observe it was).
	Duplicate
	// Conflict: the key is already claimed by other content, or its claim is
	// marked split. Never acknowledged in silence.
	Conflict
	// Later: another transaction holds the claim and did not end in time. A
	// wait, not an attempt.
	Later
	// Unclaimed: settled without a claim, because a key or a handler said Skip.
	Unclaimed
)

// String gives the word used in logs, hooks and metrics.
func (o Outcome) String() string {
	switch o {
	case Processed:
		return "processed"
	case Duplicate:
		return "duplicate"
	case Conflict:
		return "conflict"
	case Later:
		return "later"
	case Unclaimed:
		return "unclaimed"
	case Failed:
		return "failed"
	}
	return "failed"
}
