package inbox

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// modeAge is how long a consumer's mode is believed before its row is read
// again.
const modeAge = 10 * time.Second

// modes caches the mode of each consumer that this process registered.
type modes struct {
	mu sync.Mutex
	m  map[string]*modeEntry
}

type modeEntry struct {
	mode   Mode
	readAt time.Time
}

// Register inserts the consumer's row if there is none, and refuses a name that
// another service or another queue has, or that was registered with another key
// rule: two owners of one name would take each other's messages for duplicates.
// The mode counts only for the first registration; afterwards the row rules.
//
// It must be called before the first message of the consumer: the horizon is the
// time of the first registration, and Do refuses a consumer that this process
// did not register. Errors have class Config or Down.
func (b *Inbox) Register(ctx context.Context, c Consumer) error {
	if c.Service == "" {
		c.Service = b.config.Service
	}
	op := fmt.Sprintf("register consumer %q", c.Name)
	if _, err := (Claim{Consumer: c.Name, Key: "k"}).stored(); err != nil {
		return ConfigError(op, err)
	}
	row, err := b.store.Register(ctx, c)
	if err != nil {
		class := b.store.Class(err)
		if class == ClassPlain {
			class = ClassDown
		}
		return &Error{Op: op, Class: class, Err: err}
	}
	switch {
	case row.Service != c.Service:
		return Configf(op, "the name belongs to service %q, this is service %q: give this consumer another name, or set Config.Service if it is the same service", row.Service, c.Service)
	case row.Queue != c.Queue:
		return Configf(op, "the name belongs to queue %q, this is queue %q: give this consumer another name, or rename the registered one", row.Queue, c.Queue)
	case c.KeyRule != "" && row.KeyRule != c.KeyRule:
		return Configf(op, "registered with key rule %q, now %q: keys of the two rules do not recognise each other's messages; rename the consumer, or accept the new rule on purpose in its row", row.KeyRule, c.KeyRule)
	}
	b.modes.set(c.Name, row.Mode)
	if row.Mode == Observe {
		b.config.Logger.WarnContext(ctx, "consumer observes only: duplicates are counted, not skipped", "consumer", c.Name)
	}
	return nil
}

func (m *modes) set(consumer string, mode Mode) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.m == nil {
		m.m = make(map[string]*modeEntry)
	}
	m.m[consumer] = &modeEntry{mode: mode, readAt: time.Now()}
}

// get returns the cached mode, and whether the caller is the one to read it
// again.
func (m *modes) get(consumer string) (mode Mode, known, stale bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.m[consumer]
	if e == nil {
		return Enforce, false, false
	}
	if stale = time.Since(e.readAt) > modeAge; stale {
		e.readAt = time.Now() // the others go on with the old one meanwhile
	}
	return e.mode, true, stale
}

// mode tells the consumer's mode; an error of class Config when this process
// did not register it, or when its row is gone.
func (b *Inbox) mode(ctx context.Context, consumer string) (Mode, error) {
	mode, known, stale := b.modes.get(consumer)
	if !known {
		return mode, ConfigError(fmt.Sprintf("consumer %q", consumer), ErrNotRegistered)
	}
	if !stale {
		return mode, nil
	}
	row, ok, err := b.store.Consumer(ctx, consumer)
	if err != nil {
		// The claim that follows will say what is wrong with the database.
		b.config.Logger.WarnContext(ctx, "mode of the consumer could not be read again", "consumer", consumer, "err", err)
		return mode, nil
	}
	if !ok {
		return mode, Configf(fmt.Sprintf("consumer %q", consumer), "its row is gone from the registry (renamed?): register the name that is in use and restart: %w", ErrNotRegistered)
	}
	if row.Mode != mode {
		b.config.Logger.InfoContext(ctx, "mode of the consumer was switched", "consumer", consumer, "mode", row.Mode.String())
	}
	b.modes.set(consumer, row.Mode)
	return row.Mode, nil
}

// Observes tells whether a consumer that this process registered only observes.
func (b *Inbox) Observes(consumer string) bool {
	b.modes.mu.Lock()
	defer b.modes.mu.Unlock()
	e := b.modes.m[consumer]
	return e != nil && e.mode == Observe
}
