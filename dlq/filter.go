package dlq

import "time"

// Filter chooses letters. Conditions add up; an empty one does not restrict. The
// acts (Redrive, Park, Reopen, Discard) refuse a Filter without any condition
// unless All is set.
type Filter struct {
	// All confirms that no condition is meant. Defaults to false.
	All bool
	// IDs of letters. Defaults to all.
	IDs []int64
	// States they may be in. Defaults to all; for acts, to those that the act
	// takes.
	States []State
	// Queue they died in. Defaults to all.
	Queue string
	// Consumer they belong to. Defaults to all.
	Consumer string
	// Kind as Kinds lists it. Defaults to all.
	Kind string
	// Reason in one word. Defaults to all.
	Reason Reason
	// Error is a text that the error must hold, byte by byte. Defaults to all.
	Error string
	// Key in its stored or its original form. Defaults to all.
	Key string
	// MinAge and MaxAge since collection, by the database's clock. Default to no
	// bound.
	MinAge, MaxAge time.Duration
	// Headers that must be there with these values, in the text form of
	// inbox.HeaderText. Defaults to none.
	Headers map[string]string
	// Verdicts they may have; they are looked up as letters are read. Defaults to
	// all.
	Verdicts []Verdict
	// Run that took them up last. Defaults to all.
	Run string
	// Limit bounds the number of letters. Defaults to 0: no bound.
	Limit int
}
