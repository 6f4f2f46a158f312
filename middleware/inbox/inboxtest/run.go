package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Config of a run.
type Config struct {
	// Database makes an empty database with the store's tables in it. Required.
	Database func(t *testing.T) Database
	// FailedStatementDooms: after a failed statement the transaction must not be
	// committed, even when the handler returns nil (PostgreSQL). Defaults to false:
	// a failed statement undoes itself only.
	FailedStatementDooms bool
	// OneWriter: transactions take turns, so two handlers never run at once
	// (SQLite). Defaults to false.
	OneWriter bool
	// NoSQLTx: the transaction is not one of database/sql, so inbox.SQLTx has none to
	// give (pgxinbox). Defaults to false.
	NoSQLTx bool
	// Deadlocks is the most that two instances may meet before their groups take
	// turns: 1 where the store has inbox.LockYielding, so that one learns of the
	// other's, else 2. Defaults to 0: they are not counted.
	Deadlocks int
	// SideBySide: the store is inbox.Overlapping, so that groups of one consumer run at
	// once where they are slow. Defaults to false.
	SideBySide bool
	// Commits are statements that commit what is open, such as DDL on MySQL; sent
	// past the guard they must be found out. Defaults to none but COMMIT.
	Commits []string
	// Undoes are statements that fail and take the whole transaction with them
	// (SQLite's OR ROLLBACK). Defaults to none.
	Undoes []string
	// Endless is a statement that runs for an hour. Defaults to "": none is known.
	Endless string
	// Variant is for a store that runs the whole suite in another configuration: what
	// does not depend on that is left out, groups and what operators do. Defaults to
	// false.
	Variant bool
	// Unseen are statements that end the transaction and whose text the handle cannot
	// judge. Defaults to none.
	Unseen []string
	// Refused are further statements that the handle must refuse, such as DDL on
	// MySQL. Defaults to none.
	Refused []string
	// Earlier makes an expression that is as many seconds before the time in a column
	// of the store's tables. The tables have the names and columns of our stores.
	// Defaults to nil: claims cannot be made older, and purges are not tested.
	Earlier func(column string, seconds int) string
}

// Database is one real database and the ways to it.
type Database struct {
	// Open opens an inbox on the database as another process would: with a pool of
	// its own, which it closes at the end of the test. maxConns limits the pool, 0
	// leaves it to the store. Required.
	Open func(t *testing.T, c inbox.Config, maxConns int) *inbox.Inbox
	// Exec runs a statement in the transaction of the handler whose context it is
	// given. Required.
	Exec func(ctx context.Context, statement string) error
	// Raw does the same past the guard. Defaults to nil: the store gives no raw
	// transaction.
	Raw func(ctx context.Context, statement string) error
	// Prepared does the same as Exec with a statement that it prepares first.
	// Defaults to nil: it is not tested.
	Prepared func(ctx context.Context, statement string) error
	// Outside runs a statement outside of any claim. Required.
	Outside func(ctx context.Context, statement string) error
	// Count runs a query for one number outside of any claim. Required.
	Count func(ctx context.Context, query string) (int, error)
	// Waiting tells whether a session of this database waits for a lock. Defaults
	// to nil: it cannot be seen, and tests do not wait for it.
	Waiting func(ctx context.Context) (bool, error)
	// ErrLate is what the handle's error wraps after the handler returned. Required.
	ErrLate error
}

// patience bounds every single test.
const patience = time.Minute

// Run runs the suite, and then once more through groups: every Do in the middle of
// three members that share a transaction, where what it does must not harm the
// other two.
func Run(t *testing.T, c Config) {
	t.Helper()
	s := newSuite(t, c)
	if c.Variant {
		s.run(t, c, ofRuns)
		return
	}
	s.run(t, c, ofKeeping) // some of them count the whole registry
	s.run(t, c, ofRuns)
	s.run(t, c, ofGroups)
	t.Run("Groups", func(t *testing.T) {
		s.inGroups(func() { s.run(t, c, ofRuns) })
		if s.grouped.Load() == 0 {
			t.Error("no two members ever shared a transaction")
		}
	})
}

// inGroups runs fn with group commit on.
func (s *suite) inGroups(fn func()) {
	s.groups = true
	defer func() { s.groups = false }()
	fn()
}

// property is one thing that every store must have.
type property struct {
	name string
	fn   func(*test)
}

// ofRuns are the properties of Do, alone and through groups.
var ofRuns = []property{
	{"SameKeyTwice", sameKeyTwice},
	{"FiftyCopiesAtOnce", fiftyCopiesAtOnce},
	{"FiftyCopiesInOneProcess", fiftyCopiesInOneProcess},
	{"FailingCopies", failingCopies},
	{"RollbackFreesTheKey", rollbackFreesTheKey},
	{"WaiterRunsAfterRollback", waiterRunsAfterRollback},
	{"WaiterIsDuplicateAfterCommit", waiterIsDuplicateAfterCommit},
	{"HeldTooLongIsLater", heldTooLongIsLater},
	{"OtherKeysDoNotWait", otherKeysDoNotWait},
	{"ConsumerScope", consumerScope},

	{"KeysAreBytes", keysAreBytes},
	{"BlankKeys", blankKeys},
	{"ConsumerNames", consumerNames},

	{"Fingerprints", fingerprints},
	{"Unclaimed", unclaimed},
	{"Already", already},
	{"Observe", observe},
	{"Lookup", lookup},
	{"LookupOfMany", lookupOfMany},

	{"Panic", panics},
	{"Goexit", goexit},
	{"ContextCancelledBefore", contextCancelledBefore},
	{"ContextCancelledInHandler", contextCancelledInHandler},
	{"ContextCancelledAtCommit", contextCancelledAtCommit},
	{"ContextCancelledInStatement", contextCancelledInStatement},
	{"ContextCancelledWhileWaiting", contextCancelledWhileWaiting},
	{"DeadlineInHandler", deadlineInHandler},

	{"Refusals", refusals},
	{"SavepointsWork", savepointsWork},
	{"RetryAfterARefusal", retryAfterARefusal},
	{"SwallowedError", swallowedError},
	{"SwallowedErrorUndone", swallowedErrorUndone},
	{"SwallowedErrorBeforeSavepoint", swallowedErrorBeforeSavepoint},
	{"DatabaseUndoes", databaseUndoes},
	{"DeadlineOfEveryStatement", deadlineOfEveryStatement},
	{"LateUse", lateUse},
	{"LateGoroutine", lateGoroutine},
	{"OutsideOfAClaim", outsideOfAClaim},
	{"ClaimInsideItsClaim", claimInsideItsClaim},
	{"ClaimInsideThroughAnother", claimInsideThroughAnother},
	{"HookThatPanics", hookThatPanics},
	{"HandlerEndsTheTransaction", handlerEndsTheTransaction},
	{"HandlerEndsTheRawTransaction", handlerEndsTheRawTransaction},
	{"RawTransactionWorks", rawTransactionWorks},

	{"OutageElsewhere", outageElsewhere},
	{"PoolOfOne", poolOfOne},
	{"Registration", registration},
	{"UnregisteredConsumer", unregisteredConsumer},
	{"RegistrationAtOnce", registrationAtOnce},
}

// ofGroups are those of members that share a transaction.
var ofGroups = []property{
	{"GroupIsOneTransaction", groupIsOneTransaction},
	{"GroupWithAFailingMember", groupWithAFailingMember},
	{"GroupWithACleanFailure", groupWithACleanFailure},
	{"GroupWithALoner", groupWithALoner},
	{"GroupWithDuplicates", groupWithDuplicates},
	{"GroupKeepsSavepointsApart", groupKeepsSavepointsApart},
	{"GroupThatIsEnded", groupThatIsEnded},
	{"GroupSharesADeadline", groupSharesADeadline},
	{"GroupsOfTheLargestSize", groupsOfTheLargestSize},
	{"GroupIsLeftWhileItBegins", groupIsLeftWhileItBegins},
	{"InstancesTakeTurns", instancesTakeTurns},
	{"SlowGroupsRunSideBySide", slowGroupsRunSideBySide},
	{"GroupStorm", groupStorm},
	{"SetIsOneCall", setIsOneCall},
	{"SetWithAFailingMember", setWithAFailingMember},
	{"SetThatIsEnded", setThatIsEnded},
	{"SetBesideOthers", setBesideOthers},
	{"SetWithALoner", setWithALoner},
	{"SetsHandlerFailsAfterwards", setsHandlerFailsAfterwards},
	{"SetsHandleIsOver", setsHandleIsOver},
	{"SetOfOne", setOfOne},
	{"SetsHandlersPanic", setsHandlersPanic},
	{"SetsLateHandle", setsLateHandle},
	{"SetInsideAnotherClaim", setInsideAnotherClaim},
	{"SetStorm", setStorm},
	{"StormOfLeavers", stormOfLeavers},
}

// ofKeeping are those of what operators do.
var ofKeeping = []property{
	{"RegistryIsRead", registryIsRead},
	{"ClaimsOfAKey", claimsOfAKey},
	{"Stats", stats},
	{"Forgetting", forgetting},
	{"Changes", changes},
	{"ActsNewestFirst", actsNewestFirst},
	{"Hold", hold},
	{"Renaming", renaming},
	{"RenamingOntoClaims", renamingOntoClaims},
	{"PurgeDeletesWhatIsOld", purgeDeletesWhatIsOld},
	{"PurgeMovesTheHorizonForwardOnly", purgeMovesTheHorizonForwardOnly},
	{"PurgeKeepsWhatIsHeld", purgeKeepsWhatIsHeld},
	{"PurgeSparesNewClaims", purgeSparesNewClaims},
	{"LookupsDuringAPurge", lookupsDuringAPurge},
	{"PurgersAtOnce", purgersAtOnce},
	{"PurgeBesideHandlers", purgeBesideHandlers},
	{"PurgeIsCancelled", purgeIsCancelled},
	{"PurgeBounds", purgeBounds},
}

func (s *suite) run(t *testing.T, c Config, properties []property) {
	t.Helper()
	for _, p := range properties {
		if (c.OneWriter || s.groups) && p.name == "OtherKeysDoNotWait" || c.OneWriter && p.name == "PurgeBesideHandlers" ||
			c.NoSQLTx && p.name == "HandlerEndsTheRawTransaction" || len(c.Undoes) == 0 && p.name == "DatabaseUndoes" ||
			c.Endless == "" && p.name == "DeadlineOfEveryStatement" || c.cannotAge(p.name) {
			continue // not this store's property
		}
		t.Run(p.name, func(t *testing.T) { p.fn(s.test(t)) })
	}
}

// suite is one database with the table that handlers write to.
type suite struct {
	c  Config
	db Database
	n  atomic.Int64

	groups  bool
	grouped atomic.Int64 // members that were committed with others
}

func newSuite(t *testing.T, c Config) *suite {
	t.Helper()
	s := &suite{c: c, db: c.Database(t)}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.db.Outside(ctx, "CREATE TABLE inboxtest_effects (name VARCHAR(250) NOT NULL, amount INTEGER NOT NULL CHECK (amount > 0))"); err != nil {
		t.Fatalf("create the table of effects: %v", err)
	}
	return s
}

// test is what one property has: a consumer and names that no other uses.
type test struct {
	*testing.T
	s        *suite
	db       Database
	ctx      context.Context //nolint:containedctx // of the test
	id       int64
	consumer string
	box      *inbox.Inbox
	mates    mates
}

func (s *suite) test(t *testing.T) *test {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	id := s.n.Add(1)
	h := &test{T: t, s: s, db: s.db, ctx: ctx, id: id, consumer: fmt.Sprintf("consumer-%d", id)}
	h.box = h.open(inbox.Config{}, 0)
	return h
}

// open opens one more inbox, with the test's consumer registered.
func (h *test) open(c inbox.Config, maxConns int) *inbox.Inbox {
	h.Helper()
	if c.Service == "" {
		c.Service = "inboxtest"
	}
	if h.s.groups {
		c.Group = 1 << 60 // halved at every failure, it does not come down to one
		done := c.Hooks.Done
		c.Hooks.Done = func(ctx context.Context, e inbox.Event) {
			if e.Group > 1 {
				h.s.grouped.Add(1)
			}
			if done != nil {
				done(ctx, e)
			}
		}
	}
	box := h.db.Open(h.T, c, maxConns)
	h.register(box, h.consumer)
	return box
}

func (h *test) register(box *inbox.Inbox, consumer string) {
	h.Helper()
	if err := box.Register(h.ctx, inbox.Consumer{Name: consumer}); err != nil {
		h.Fatalf("register %q: %v", consumer, err)
	}
}

// claim of a key for the test's consumer.
func (h *test) claim(key string) inbox.Claim { return inbox.Claim{Consumer: h.consumer, Key: key} }

// effect is the name under which a handler writes, not shared with other tests.
func (h *test) effect(name string) string { return fmt.Sprintf("%d-%s", h.id, name) }

// write returns a handler that leaves one effect.
func (h *test) write(name string) func(ctx context.Context) error {
	return func(ctx context.Context) error { return h.db.Exec(ctx, h.insert(name)) }
}

func (h *test) insert(name string) string {
	return fmt.Sprintf("INSERT INTO inboxtest_effects (name, amount) VALUES ('%s', 1)", h.effect(name))
}

// fail is a statement that the database refuses.
func (h *test) fail(name string) string {
	return fmt.Sprintf("INSERT INTO inboxtest_effects (name, amount) VALUES ('%s', 0)", h.effect(name))
}

// effects fails the test unless the handlers' committed writes are as many.
func (h *test) effects(name string, want int) {
	h.Helper()
	got, err := h.db.Count(h.ctx, fmt.Sprintf("SELECT count(*) FROM inboxtest_effects WHERE name = '%s'", h.effect(name)))
	if err != nil {
		h.Fatalf("count effects of %s: %v", name, err)
	}
	if got != want {
		h.Errorf("effects of %s: %d, want %d", name, got, want)
	}
}

// do is Do as callers run it: what the database undid, or held up, is run again
// as a whole.
func (h *test) do(box *inbox.Inbox, c inbox.Claim, fn func(ctx context.Context) error) (inbox.Outcome, error) {
	for {
		out, err := h.once(h.ctx, box, c, fn)
		if out != inbox.Later && inbox.ClassOf(err) != inbox.ClassTransient || h.ctx.Err() != nil {
			return out, err
		}
	}
}

// want fails the test unless Do ends so.
func (h *test) want(want inbox.Outcome, c inbox.Claim, fn func(ctx context.Context) error) {
	h.Helper()
	h.wantOn(h.box, want, c, fn)
}

func (h *test) wantOn(box *inbox.Inbox, want inbox.Outcome, c inbox.Claim, fn func(ctx context.Context) error) {
	h.Helper()
	out, err := h.do(box, c, fn)
	if out != want {
		h.Fatalf("do %s: %s (%v), want %s", c, out, err, want)
	}
	silent := want == inbox.Processed || want == inbox.Duplicate || want == inbox.Unclaimed
	if (err == nil) != silent {
		h.Fatalf("do %s: %s with error %v", c, out, err)
	}
}

// wantErr fails the test unless Do fails with the class, and with target where
// that is not nil.
func (h *test) wantErr(class inbox.Class, target error, c inbox.Claim, fn func(ctx context.Context) error) error {
	h.Helper()
	out, err := h.do(h.box, c, fn)
	h.checkErr(out, err, class, target)
	return err
}

func (h *test) checkErr(out inbox.Outcome, err error, class inbox.Class, target error) {
	h.Helper()
	if out != inbox.Failed || err == nil || inbox.ClassOf(err) != class || target != nil && !errors.Is(err, target) {
		h.Fatalf("outcome %s, class %s, error %v; want failed, %s, %v", out, inbox.ClassOf(err), err, class, target)
	}
}

// absent fails the test when the claim is in the table.
func (h *test) absent(c inbox.Claim) {
	h.Helper()
	recs, err := h.box.Lookup(h.ctx, c)
	if err != nil {
		h.Fatalf("look up %s: %v", c, err)
	}
	if recs[0].Found {
		h.Errorf("claim %s is in the table", c)
	}
}

// never is a handler that must not be called.
func (h *test) never(context.Context) error {
	h.Error("the handler was called")
	return nil
}

// waiting returns once a session of the database waits for a lock, where that
// can be seen.
func (h *test) waiting() {
	h.Helper()
	for h.db.Waiting != nil {
		ok, err := h.db.Waiting(h.ctx)
		if err != nil {
			h.Fatalf("see whether a session waits: %v", err)
		}
		if ok {
			return
		}
	}
}

// result of a Do on another goroutine.
type result struct {
	out inbox.Outcome
	err error
}

// start runs fn on a goroutine of its own.
func start(fn func() (inbox.Outcome, error)) <-chan result {
	c := make(chan result, 1)
	go func() {
		var r result
		defer func() { c <- r }()
		r.out, r.err = fn()
	}()
	return c
}

// wait for a result, or for the end of patience.
func (h *test) wait(c <-chan result) result {
	h.Helper()
	select {
	case r := <-c:
		return r
	case <-h.ctx.Done():
		h.Fatal("a run did not end")
		return result{}
	}
}
