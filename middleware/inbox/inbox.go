package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// Config is what every store's Open takes besides its own fields. The zero
// value works.
type Config struct {
	// Service owns the consumer names that this inbox registers. Set it where
	// several services share a database. Defaults to the name of the binary.
	Service string
	// LockWait bounds the wait for a claim that another transaction holds; the
	// outcome is then Later. Defaults to 10 s.
	LockWait time.Duration
	// Deadline bounds one transaction, handler included. Defaults to 1 min.
	Deadline time.Duration
	// Already is asked, inside the transaction, after a claim was won: true means
	// that the work was done before Sekali knew of it (an older dedup table,
	// natural evidence), so the claim is committed and the outcome is Duplicate.
	// Defaults to nil: not asked.
	Already func(ctx context.Context, c Claim) (bool, error)
	// Group is the most deliveries of a consumer that share one transaction (64 is a
	// good number; the transport must hand out more than one at a time). Those that
	// wait while a transaction runs are taken together into the next one: one claim
	// statement, their handlers one after the other, one commit, then each its own
	// outcome. A handler may then run twice for one delivery, never after a commit;
	// it must not wait for another message of its consumer, and one that calls slow
	// services should ask for Alone first. More than MaxGroup counts as that. See
	// docs/groups.md. Defaults to 0: each has a transaction of its own.
	Group int
	// GroupLock names what the groups of a consumer lock for a while after a
	// deadlock, so that several instances on the same rows take turns: give consumers
	// that write the same rows the same name. On MySQL and MariaDB it must be the
	// name of a registered consumer. Defaults to the consumer's name.
	GroupLock string
	// Tenant names the tenant of a message, by the context that Do was given: only
	// equal tenants share a transaction. Required for Group with a store's Begin
	// func, which then gets a context with the values of one of the members. Defaults
	// to nil: all are one tenant.
	Tenant func(ctx context.Context) string
	// Hooks see every outcome. Defaults to none.
	Hooks Hooks
	// Logger takes what an operator should know. Defaults to nil: silent.
	Logger *slog.Logger
}

// MaxGroup is the most deliveries that can share one transaction: databases bound
// what one statement holds (SQLite a condition of 1000 terms).
const MaxGroup = 500

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Service == "" {
		c.Service = filepath.Base(os.Args[0])
	}
	if c.LockWait < 0 {
		errs = append(errs, fmt.Errorf("LockWait is %s: must not be negative", c.LockWait))
	}
	if c.Deadline < 0 {
		errs = append(errs, fmt.Errorf("Deadline is %s: must not be negative", c.Deadline))
	}
	if c.Group < 0 {
		errs = append(errs, fmt.Errorf("Group is %d: must not be negative", c.Group))
	}
	if c.LockWait == 0 {
		c.LockWait = 10 * time.Second
	}
	if c.Deadline == 0 {
		c.Deadline = time.Minute
	}
	if c.LockWait >= c.Deadline && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("LockWait %s must be shorter than Deadline %s", c.LockWait, c.Deadline))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(errs...)
}

// Inbox runs handlers inside claims. It is the one concrete type that users
// hold; the Open function of a store returns it. Safe for concurrent use.
type Inbox struct {
	store   Store
	config  Config
	flights flights
	modes   modes
	splits  splits
	lanes   lanes
}

// New is for stores: it puts the engine on top of one. Users call the Open
// function of their store, which also checks the schema.
func New(store Store, c Config) (*Inbox, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, ConfigError("open inbox", err)
	}
	return &Inbox{store: store, config: c}, nil
}

// Class tells what may be done about an error of this inbox's database, as Do
// would. For code that talks to the same database outside a claim.
func (b *Inbox) Class(err error) Class {
	if c := ClassOf(err); c != ClassPlain {
		return c
	}
	return b.store.Class(err)
}

// Lookup tells which claims are committed, together with the horizon of their
// consumers: one statement, so that a purge in between cannot make a processed
// key look new. Records come in the order of cs. It sees committed rows only: a
// claim whose commit is under way may be absent.
func (b *Inbox) Lookup(ctx context.Context, cs ...Claim) ([]Record, error) {
	if len(cs) == 0 {
		return nil, nil
	}
	stored := make([]Claim, len(cs))
	for i, c := range cs {
		s, err := c.stored()
		if err != nil {
			return nil, fmt.Errorf("look up: %w", err)
		}
		stored[i] = s
	}
	recs, err := b.store.Lookup(ctx, stored)
	if err != nil {
		return nil, &Error{Op: "look up", Class: b.store.Class(err), Err: err}
	}
	return recs, nil
}

// GroupSize is the most deliveries that share one transaction, 1 without group
// commit. A transport should hand out twice as many at a time.
func (b *Inbox) GroupSize() int { return min(max(1, b.config.Group), MaxGroup) }

// Pooled is for stores that work on a bounded pool of connections.
type Pooled interface {
	// MaxOpen is the most that may be open at once; 0 means no limit.
	MaxOpen() int
}

// MaxConnections is the most handlers that can be inside claims at once, as far
// as connections go; 0 when nothing bounds them, as in groups, which share one.
func (b *Inbox) MaxConnections() int {
	if b.GroupSize() > 1 {
		return 0
	}
	if p, ok := b.store.(Pooled); ok {
		return p.MaxOpen()
	}
	return 0
}
