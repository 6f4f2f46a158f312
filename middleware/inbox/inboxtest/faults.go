package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Network is what lies between the inboxes and the database server.
type Network interface {
	// CutAnswer breaks the next connection that sends the statement after the
	// server executed it and before its answer arrives. The statement is COMMIT.
	CutAnswer(statement string)
	// CutRequest breaks the next connection that sends the statement before the
	// server gets it.
	CutRequest(statement string)
	// Down breaks all connections and lets none through.
	Down()
	// Up lets connections through again.
	Up()
}

// Server is the database server's own side.
type Server interface {
	// KillBackends ends all connections of the database, as its administrator may.
	KillBackends(ctx context.Context) error
	// Restart ends the server without a shutdown and starts it again; it is ready
	// when Restart returns.
	Restart(t *testing.T)
}

// Faults is the configuration of RunFaults.
type Faults struct {
	// Config as for Run. Its Database opens inboxes through the Network.
	Config
	// Network that the inboxes are reached through. Defaults to nil: its tests are
	// skipped.
	Network Network
	// Server of the Database. Defaults to nil: its tests are skipped.
	Server Server
}

// RunFaults runs the properties that hold when the server or the network fails.
// Nothing else may use the server meanwhile.
func RunFaults(t *testing.T, f Faults) {
	t.Helper()
	s := newSuite(t, f.Config)
	s.runFaults(t, f)
	t.Run("Groups", func(t *testing.T) { s.inGroups(func() { s.runFaults(t, f) }) })
}

func (s *suite) runFaults(t *testing.T, f Faults) {
	t.Helper()
	for _, p := range []struct {
		name string
		fn   func(*faultTest)
	}{
		{"AnswerToCommitLost", answerToCommitLost},
		{"CommitLost", commitLost},
		{"NetworkDown", networkDown},
		{"SplitWhileDown", splitWhileDown},
		{"BackendKilledInHandler", backendKilledInHandler},
		{"BackendKilledAndSwallowed", backendKilledAndSwallowed},
		{"BackendKilledWhileWaiting", backendKilledWhileWaiting},
		{"IdleBackendsKilled", idleBackendsKilled},
		{"ServerRestartedInHandler", serverRestartedInHandler},
	} {
		if s.groups && p.name == "IdleBackendsKilled" {
			continue // it needs two handlers of a consumer at once
		}
		t.Run(p.name, func(t *testing.T) { p.fn(&faultTest{test: s.test(t), f: f}) })
	}
}

type faultTest struct {
	*test
	f Faults
}

func (h *faultTest) network() Network {
	h.Helper()
	if h.f.Network == nil {
		h.Skip("no network to break")
	}
	return h.f.Network
}

func (h *faultTest) server() Server {
	h.Helper()
	if h.f.Server == nil {
		h.Skip("no server to break")
	}
	return h.f.Server
}

func (h *faultTest) kill() {
	h.Helper()
	if err := h.server().KillBackends(h.ctx); err != nil {
		h.Fatalf("kill backends: %v", err)
	}
}

// gone fails the test unless the outcome says that the database went away.
func (h *faultTest) gone(out inbox.Outcome, err error) {
	h.Helper()
	if c := inbox.ClassOf(err); out != inbox.Failed || c != inbox.ClassDown && c != inbox.ClassTransient {
		h.Errorf("outcome %s, class %s, %v; want failed, down", out, c, err)
	}
}

// A commit whose answer is lost is unknown, never a success and never a failure:
// the next claim finds that it was committed.
func answerToCommitLost(h *faultTest) {
	n := h.network()
	out, err := h.once(h.ctx, h.box, h.claim("k"), func(ctx context.Context) error {
		n.CutAnswer("COMMIT")
		return h.write("k")(ctx)
	})
	h.checkErr(out, err, inbox.ClassUnknown, inbox.ErrUnknownCommit)
	h.want(inbox.Duplicate, h.claim("k"), h.never)
	h.effects("k", 1)
}

// A commit that never reached the server is unknown too: the next claim finds
// that it was not committed, and runs.
func commitLost(h *faultTest) {
	n := h.network()
	out, err := h.once(h.ctx, h.box, h.claim("k"), func(ctx context.Context) error {
		n.CutRequest("COMMIT")
		return h.write("k")(ctx)
	})
	h.checkErr(out, err, inbox.ClassUnknown, inbox.ErrUnknownCommit)
	h.want(inbox.Processed, h.claim("k"), h.write("k"))
	h.effects("k", 1)
}

// While the database cannot be reached every run fails as Down, without a call of
// the handler; afterwards work goes on with the same inbox.
func networkDown(h *faultTest) {
	n := h.network()
	h.want(inbox.Processed, h.claim("before"), h.write("before"))
	n.Down()
	defer n.Up()
	out, err := h.once(h.ctx, h.box, h.claim("k"), h.never)
	if out != inbox.Failed || inbox.ClassOf(err) != inbox.ClassDown {
		h.Errorf("outcome %s, class %s, %v", out, inbox.ClassOf(err), err)
	}
	if _, err := h.box.Lookup(h.ctx, h.claim("k")); inbox.ClassOf(err) != inbox.ClassDown {
		h.Errorf("look up: class %s, %v", inbox.ClassOf(err), err)
	}
	if err := h.box.Register(h.ctx, inbox.Consumer{Name: h.consumer}); inbox.ClassOf(err) != inbox.ClassDown {
		h.Errorf("register: class %s, %v", inbox.ClassOf(err), err)
	}
	n.Up()
	h.want(inbox.Duplicate, h.claim("before"), h.never)
	h.want(inbox.Processed, h.claim("k"), h.write("k"))
	h.effects("k", 1)
}

// A handler that ends the transaction itself just before the database goes away
// is in doubt, and the next copy settles it: a claim that was committed is split,
// never a duplicate; one that was not runs again.
func splitWhileDown(h *faultTest) {
	n := h.network()
	if h.db.Raw == nil {
		h.Skip("the store gives no raw transaction")
	}
	for i, ending := range []string{"COMMIT", "ROLLBACK", ""} {
		for _, ret := range []error{nil, errors.New("no")} {
			key := fmt.Sprintf("%d-%v", i, ret == nil)
			out, err := h.once(h.ctx, h.box, h.claim(key), func(ctx context.Context) error {
				if err := h.db.Raw(ctx, h.insert(key)); err != nil {
					return err
				}
				if ending != "" {
					if err := errors.Join(h.db.Raw(ctx, ending), h.db.Raw(ctx, "BEGIN")); err != nil {
						return err
					}
				}
				n.Down()
				_ = h.db.Raw(ctx, h.insert(key))
				return ret
			})
			if out != inbox.Failed || err == nil {
				h.Errorf("%s: %s, %v", key, out, err)
			}
			n.Up()
			if ending != "COMMIT" {
				h.want(inbox.Processed, h.claim(key), h.write(key))
				h.effects(key, 1)
				continue
			}
			out, err = h.do(h.box, h.claim(key), h.never)
			if out != inbox.Conflict || !errors.Is(err, inbox.ErrSplit) {
				h.Errorf("%s: the next copy: %s, %v", key, out, err)
			}
			h.after(key, true)
		}
	}
}

// A backend that is killed while the handler works undoes everything; the
// handler's error has the class Down, and the next run succeeds at once.
func backendKilledInHandler(h *faultTest) {
	h.server()
	out, err := h.once(h.ctx, h.box, h.claim("k"), func(ctx context.Context) error {
		if err := h.write("k")(ctx); err != nil {
			return err
		}
		h.kill()
		return h.write("k")(ctx)
	})
	h.gone(out, err)
	h.absent(h.claim("k"))
	h.want(inbox.Processed, h.claim("k"), h.write("k"))
	h.effects("k", 1)
}

// The same when the handler does not notice, or does not say.
func backendKilledAndSwallowed(h *faultTest) {
	h.server()
	for i, again := range []bool{false, true} {
		key := []string{"unnoticed", "unsaid"}[i]
		out, err := h.once(h.ctx, h.box, h.claim(key), func(ctx context.Context) error {
			if err := h.write(key)(ctx); err != nil {
				return err
			}
			h.kill()
			if again {
				_ = h.write(key)(ctx)
			}
			return nil
		})
		h.gone(out, err)
		h.absent(h.claim(key))
		h.want(inbox.Processed, h.claim(key), h.write(key))
		h.effects(key, 1)
	}
}

// A backend that is killed while it waits for another's claim fails as Down.
func backendKilledWhileWaiting(h *faultTest) {
	h.server()
	if h.db.Waiting == nil {
		h.Skip("waiting sessions cannot be seen")
	}
	first, release := h.hold(h.open(inbox.Config{}, 0), "k")
	second := start(func() (inbox.Outcome, error) { return h.once(h.ctx, h.box, h.claim("k"), h.never) })
	h.waiting()
	h.kill() // both of them
	if r := h.wait(second); r.out != inbox.Failed || inbox.ClassOf(r.err) != inbox.ClassDown {
		h.Errorf("second copy: %s, class %s, %v", r.out, inbox.ClassOf(r.err), r.err)
	}
	release(errors.New("no"))
	h.wait(first)
	h.absent(h.claim("k"))
	h.want(inbox.Processed, h.claim("k"), h.write("k"))
	h.effects("k", 1)
}

// Connections that died in the pool cost no message its run.
func idleBackendsKilled(h *faultTest) {
	h.server()
	first, release := h.hold(h.box, "one")
	h.want(inbox.Processed, h.claim("two"), h.write("two"))
	release(nil)
	h.wait(first)
	h.kill()
	var calls atomic.Int64
	out, err := h.once(h.ctx, h.box, h.claim("k"), func(ctx context.Context) error {
		calls.Add(1)
		return h.write("k")(ctx)
	})
	if out != inbox.Processed || err != nil || calls.Load() != 1 {
		h.Errorf("%s, %v after %d calls", out, err, calls.Load())
	}
	h.effects("k", 1)
}

// A server that crashes and comes back: what was committed stays, what was under
// way is undone and can be run again.
func serverRestartedInHandler(h *faultTest) {
	srv := h.server()
	h.want(inbox.Processed, h.claim("before"), h.write("before"))
	out, err := h.once(h.ctx, h.box, h.claim("k"), func(ctx context.Context) error {
		if err := h.write("k")(ctx); err != nil {
			return err
		}
		srv.Restart(h.T)
		return h.write("k")(ctx)
	})
	h.gone(out, err)
	h.want(inbox.Duplicate, h.claim("before"), h.never)
	h.absent(h.claim("k"))
	h.want(inbox.Processed, h.claim("k"), h.write("k"))
	h.effects("before", 1)
	h.effects("k", 1)
}
