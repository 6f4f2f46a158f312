package letter

// Fate is what is known of a message whose publish failed.
type Fate uint8

const (
	// FateUnknown: it may be in the queue.
	FateUnknown Fate = iota
	// FateRefused: it is not in the queue, and would be refused again: the message
	// or its target is the fault.
	FateRefused
	// FateUnsent: it is not in the queue, because the broker could not be reached.
	FateUnsent
	// FateClosed: it is not in the queue, and the publisher takes no more.
	FateClosed
)

type fateError struct {
	text string
	fate Fate
}

func (e *fateError) Error() string { return e.text }

// FateError makes a sentinel for publishers whose errors tell the fate of their
// message. Errors without one leave it unknown.
func FateError(fate Fate, text string) error { return &fateError{text, fate} }

// FateOf tells the fate of a message by the error of its publish. What says that
// it is unknown outweighs all else; closed counts only together with unsent.
func FateOf(err error) Fate {
	var says [FateClosed + 1]bool
	walk(err, func(f Fate) { says[f] = true })
	switch {
	case says[FateUnknown]:
		return FateUnknown
	case says[FateUnsent] && says[FateClosed]:
		return FateClosed
	case says[FateUnsent]:
		return FateUnsent
	case says[FateRefused]:
		return FateRefused
	}
	return FateUnknown
}

// walk visits all that err wraps: an error may say that a message was not sent
// because the publisher is closed.
func walk(err error, visit func(Fate)) {
	for err != nil {
		if f, ok := err.(*fateError); ok { //nolint:errorlint // the tree is walked here
			visit(f.fate)
		}
		switch e := err.(type) { //nolint:errorlint // the tree is walked here
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				walk(inner, visit)
			}
			return
		default:
			return
		}
	}
}
