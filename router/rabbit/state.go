package rabbit

// Direction says which of the two connections is meant.
type Direction string

// The two directions have a TCP connection each, because the broker throttles
// publishing connections by not reading from them, which would hold up acks.
const (
	Consume Direction = "consume"
	Publish Direction = "publish"
)

// State of one of the two connections.
type State uint8

const (
	// Disconnected: not connected; being dialled, with backoff, for ever.
	Disconnected State = iota
	// Connected: usable.
	Connected
	// Blocked: connected, but the broker takes no publishes (memory or disk
	// alarm).
	Blocked
	// Stopped: closed by us.
	Stopped
)

// String gives the word used in logs.
func (s State) String() string {
	switch s {
	case Disconnected:
		return "disconnected"
	case Connected:
		return "connected"
	case Blocked:
		return "blocked"
	case Stopped:
		return "closed"
	}
	return "disconnected"
}

// StateChange is what ConnectionConfig.OnState sees.
type StateChange struct {
	Direction Direction
	State     State
	// Err says why, for Disconnected; what the broker said, for Blocked.
	Err error
	// Attempt counts the failed dials since the connection was lost.
	Attempt int
}
