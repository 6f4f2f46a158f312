package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// modeAge is how long a consumer's mode is believed before its row is read
// again, beside the runs; a mode of twice that age is not used any more.
const modeAge = 5 * time.Second

// heldAge is the same while the consumer is held: those who ask then are probes.
const heldAge = time.Second

// modes caches the mode of each consumer that this process registered.
type modes struct {
	mu sync.Mutex
	m  map[string]*modeEntry
}

type modeEntry struct {
	mode    Mode
	held    error // an operator holds the consumer
	gone    bool  // the row was not there any more
	freshAt time.Time
	triedAt time.Time
	reading chan struct{} // non-nil while it is read again; closed afterwards
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
	fail := func(err error) error {
		class := b.store.Class(err)
		if class == ClassPlain {
			class = ClassDown
		}
		return &Error{Op: op, Class: class, Err: err}
	}
	known, err := b.store.Consumers(ctx)
	if err != nil {
		return fail(err)
	}
	var row Consumer
	for _, k := range known {
		if k.Name == c.Name {
			row = k
		}
		if k.Queue == c.Queue && k.Name != c.Name && slices.Contains(k.FormerNames, c.Name) {
			return Configf(op, "the consumer of queue %q was renamed to %q, and all its claims with it (an old deployment came back?): deploy with the new name", c.Queue, k.Name)
		}
	}
	// A row that is there is not inserted again: that would wait for a rename or a
	// purge that has it locked.
	if row.Name == "" {
		if row, err = b.store.Register(ctx, c); err != nil {
			return fail(err)
		}
	}
	switch {
	case row.Service != c.Service:
		return Configf(op, "the name belongs to service %q, this is service %q: give this consumer another name, or set Config.Service if it is the same service", row.Service, c.Service)
	case row.Queue != c.Queue:
		return Configf(op, "the name belongs to queue %q, this is queue %q: give this consumer another name, or rename the registered one", row.Queue, c.Queue)
	case c.KeyRule != "" && row.KeyRule != c.KeyRule:
		return Configf(op, "registered with key rule %q, now %q: keys of the two rules do not recognise each other's messages; rename the consumer, or accept the new rule when no copy of a message of the old one can come any more: sekali inbox accept-key-rule %s %s --why \"...\"", row.KeyRule, c.KeyRule, shell(c.Name), shell(c.KeyRule))
	}
	b.modes.set(row)
	if err := row.held(); err != nil {
		b.config.Logger.WarnContext(ctx, "consumer is held by an operator: its messages wait until it is resumed", "consumer", c.Name, "err", err)
	}
	if row.Mode == Observe {
		b.config.Logger.WarnContext(ctx, "consumer observes only: duplicates are counted, not skipped", "consumer", c.Name)
	}
	return nil
}

// shell quotes a word of a command.
func shell(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

func (m *modes) set(row Consumer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.m == nil {
		m.m = make(map[string]*modeEntry)
	}
	m.m[row.Name] = &modeEntry{mode: row.Mode, held: row.held(), freshAt: time.Now()}
}

// mode tells the consumer's mode, never one that is older than twice modeAge; an
// error of class Config when this process did not register the consumer or its
// row is gone, of class Down when the row cannot be read.
func (b *Inbox) mode(ctx context.Context, consumer string) (Mode, error) {
	op := func() string { return fmt.Sprintf("consumer %q", consumer) } // rarely needed
	m := &b.modes
	for waited := false; ; waited = true {
		m.mu.Lock()
		e := m.m[consumer]
		if e == nil {
			m.mu.Unlock()
			return Enforce, ConfigError(op(), ErrNotRegistered)
		}
		// Beside the runs as long as there is time: none of them waits for it.
		// A hold ends at the first look after it: who asks has nothing else to do.
		old := time.Since(e.freshAt) > 2*modeAge || e.held != nil && time.Since(e.freshAt) > heldAge
		if e.reading == nil && (old || time.Since(e.freshAt) > modeAge && time.Since(e.triedAt) > modeAge) && !waited {
			e.reading, e.triedAt = make(chan struct{}), time.Now()
			go b.reread(context.WithoutCancel(ctx), consumer, e)
		}
		mode, gone, held, reading := e.mode, e.gone, e.held, e.reading
		m.mu.Unlock()
		switch {
		case !old && gone:
			return Enforce, Configf(op(), "its row is gone from the registry (renamed?): register the name that is in use and restart: %w", ErrNotRegistered)
		case !old && held != nil:
			return mode, &Error{Op: op(), Claim: Claim{Consumer: consumer}, Class: ClassDown, Err: held}
		case !old:
			return mode, nil
		case reading == nil:
			return Enforce, &Error{Op: op(), Claim: Claim{Consumer: consumer}, Class: ClassDown, Err: errors.New("its row could not be read again: its mode is not known")}
		}
		select {
		case <-reading:
		case <-ctx.Done():
			return Enforce, &Error{Op: op(), Claim: Claim{Consumer: consumer}, Class: ClassCancelled, Err: context.Cause(ctx)}
		}
	}
}

// reread looks at the row again.
func (b *Inbox) reread(ctx context.Context, consumer string, e *modeEntry) {
	ctx, cancel := context.WithTimeout(ctx, b.config.LockWait)
	defer cancel()
	row, ok, err := b.store.Consumer(ctx, consumer)
	b.modes.mu.Lock()
	defer b.modes.mu.Unlock()
	defer func() { close(e.reading); e.reading = nil }()
	if err != nil {
		b.config.Logger.WarnContext(ctx, "mode of the consumer could not be read again", "consumer", consumer, "err", err)
		return
	}
	if ok && row.Mode != e.mode {
		b.config.Logger.InfoContext(ctx, "mode of the consumer was switched", "consumer", consumer, "mode", row.Mode.String())
	}
	held := row.held()
	switch {
	case held != nil && e.held == nil:
		b.config.Logger.WarnContext(ctx, "an operator holds the consumer: its messages wait", "consumer", consumer, "err", held)
	case held == nil && e.held != nil && ok:
		b.config.Logger.InfoContext(ctx, "consumer was resumed", "consumer", consumer)
	}
	e.mode, e.held, e.gone, e.freshAt = row.Mode, held, !ok, time.Now()
}

// Observes tells whether a consumer that this process registered only observes.
func (b *Inbox) Observes(consumer string) bool {
	b.modes.mu.Lock()
	defer b.modes.mu.Unlock()
	e := b.modes.m[consumer]
	return e != nil && e.mode == Observe
}
