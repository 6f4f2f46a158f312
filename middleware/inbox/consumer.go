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
	// FormerNames under which this consumer's older claims were made.
	FormerNames []string
}
