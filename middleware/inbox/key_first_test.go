package inbox

import (
	"errors"
	"testing"
)

// blankKey is somebody's Key that does not keep the rules.
type blankKey struct{}

func (blankKey) Of(Message) (string, error) { return " ", nil }
func (blankKey) String() string             { return "blank" }

func TestFirstOfPassesOverABlankKey(t *testing.T) {
	t.Parallel()
	if got, err := FirstOf(blankKey{}, DefaultKey).Of(keyMsg{id: "m"}); got != "m" || err != nil {
		t.Errorf("%q, %v, want the message id", got, err)
	}
	if got, err := FirstOf(messageIDKey{}, blankKey{}).Of(keyMsg{}); !errors.Is(err, ErrNoKey) {
		t.Errorf("%q, %v, want ErrNoKey", got, err)
	}
}

func TestFirstOfIsFlat(t *testing.T) {
	t.Parallel()
	k := FirstOf(FirstOf(cloudEventsKey{}, DefaultKey), nil, mustParse(t, "json:/id"))
	if got, want := k.String(), "cloudevents, header:event_id, message-id, json:/id"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
