package inbox

import (
	"fmt"
	"time"
)

// Mode says what a claim may decide.
type Mode uint8

const (
	// Enforce skips duplicates. The default.
	Enforce Mode = iota
	// Observe claims in the same transaction but always runs the handler; what
	// would have been skipped is only counted.
	Observe
)

// String gives the word kept in the consumer's row.
func (m Mode) String() string {
	if m == Observe {
		return "observe"
	}
	return "enforce"
}

// ParseMode reads what String wrote.
func ParseMode(s string) (Mode, error) {
	switch s {
	case "enforce":
		return Enforce, nil
	case "observe":
		return Observe, nil
	}
	return Enforce, fmt.Errorf("mode %q: must be \"enforce\" or \"observe\"", s)
}

// Consumer is the registry row of one consumer name (table sekali_consumers).
type Consumer struct {
	// Name under which keys are remembered. At most MaxConsumerBytes.
	Name string
	// Service that owns the name. Defaults to the inbox's Service.
	Service string
	// Queue the messages come from; empty where there is none to name.
	Queue string
	// KeyRule as Key.String gives it.
	KeyRule string
	// Mode of the first registration; afterwards the row rules.
	Mode Mode
	// Horizon: before this time an absent claim proves nothing. Set by the
	// database's clock at the first registration; ignored as input.
	Horizon time.Time
	// FormerNames that this consumer had, the newest last. Ignored as input.
	FormerNames []string
	// HeldSince is when an operator began to hold the consumer, by the database's
	// clock; zero when it is not held. Ignored as input.
	HeldSince time.Time
	// HeldBy and HeldWhy say who holds it and why.
	HeldBy, HeldWhy string
}

// Held reports whether an operator holds the consumer, see Inbox.Change.
func (c Consumer) Held() bool { return !c.HeldSince.IsZero() }

// held is what a run of a held consumer gets; nil when it is not held.
func (c Consumer) held() error {
	if !c.Held() {
		return nil
	}
	return fmt.Errorf("%w: %s, since %s: %s", ErrHeld, c.HeldBy, c.HeldSince.UTC().Format(time.RFC3339), c.HeldWhy)
}
