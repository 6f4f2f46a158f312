package dlq

import (
	"context"
	"iter"
	"time"
)

// Note says who did something and why.
type Note struct {
	Who, Why string
}

// Kind is a group of letters that died alike.
type Kind struct {
	// ID for Filter.Kind.
	ID string
	// Queue they died in.
	Queue string
	// Reason in one word.
	Reason Reason
	// Shape of their error: digits and ids masked.
	Shape string
	// Count of letters.
	Count int64
	// Oldest and Newest by collection.
	Oldest, Newest time.Time
	// Example is the newest letter.
	Example int64
}

// Each yields the letters that f chooses, with neither headers nor body. It reads
// them page by page: memory stays flat however many there are, and letters that
// come meanwhile may be among them. It ends after the first error.
func (l *Letters) Each(ctx context.Context, f Filter, o Order) iter.Seq2[*Letter, error] {
	return func(yield func(*Letter, error) bool) { yield(nil, errUnbuilt) }
}

// List returns at most Filter.Limit letters (0: 100) that come after the letter
// of that id in the order; 0 begins at its end.
func (l *Letters) List(ctx context.Context, f Filter, o Order, after int64) ([]*Letter, error) {
	return nil, errUnbuilt
}

// Get returns one letter with its message. ErrNoLetter when there is none.
func (l *Letters) Get(ctx context.Context, id int64) (*Letter, error) { return nil, errUnbuilt }

// Count counts the letters that f chooses.
func (l *Letters) Count(ctx context.Context, f Filter) (int64, error) { return 0, errUnbuilt }

// Kinds groups the letters that f chooses, largest group first. Headers, Verdicts
// and Limit of f are refused.
func (l *Letters) Kinds(ctx context.Context, f Filter) ([]Kind, error) { return nil, errUnbuilt }

// History returns what happened to a letter, oldest first. ErrNoLetter when
// there is none.
func (l *Letters) History(ctx context.Context, id int64) ([]Event, error) { return nil, errUnbuilt }

// Judge looks up what the inboxes can prove of letters, as of now. Judgements
// come in their order.
func (l *Letters) Judge(ctx context.Context, letters ...*Letter) ([]Judgement, error) {
	return nil, errUnbuilt
}
