package middleware_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	wmiddleware "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// Copies of a message, sent again or delivered again, take effect once.
func TestCopiesTakeEffectOnce(t *testing.T) {
	w := newWorld(t)
	w.handle(w.stack(middleware.StackConfig{}), func(msg *message.Message) error { return effect(msg.Context(), "e") })
	w.run()
	for range 5 {
		w.publish("a")
	}
	w.until("five outcomes", func() bool { return len(w.events) == 5 })
	if o := w.outcomes(); o[inbox.Processed] != 1 || o[inbox.Duplicate] != 4 || w.effects("e") != 1 || w.claims() != 1 {
		t.Errorf("outcomes %v, %d effects, %d claims", o, w.effects("e"), w.claims())
	}
}

// However a handler fails, nothing of it is committed, and the message becomes a
// letter that says why, once.
func TestFailingHandlersBecomeLetters(t *testing.T) {
	for name, c := range map[string]struct {
		fail     func() error
		attempts int64
		reason   string
	}{
		"error":     {func() error { return errors.New("no such lamp") }, 3, "gave up after 3 attempts: handle stock/\"k\": no such lamp"},
		"permanent": {func() error { return inbox.Permanent(errors.New("no such lamp")) }, 1, "handle stock/\"k\": no such lamp"},
		"panic":     {func() error { panic("no such lamp") }, 3, "gave up after 3 attempts: handler panicked: no such lamp"},
		"panic nil": {func() error { panic(nil) }, 3, "gave up after 3 attempts: handler panicked: panic called with nil argument"}, //nolint:govet // what some handlers do
		"goexit":    {func() error { runtime.Goexit(); return nil }, 1, "handler left its goroutine"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var attempts atomic.Int64
			w.handle(w.stack(middleware.StackConfig{MaxAttempts: 3}), func(msg *message.Message) error {
				attempts.Add(1)
				if err := effect(msg.Context(), "e"); err != nil {
					return err
				}
				return c.fail()
			})
			w.run()
			w.publish("k")
			w.until("a letter", func() bool { return len(w.letters) > 0 })
			l := w.letters[0].Metadata
			if !strings.Contains(l[letter.HeaderReason], c.reason) {
				t.Errorf("reason %q, want %q", l[letter.HeaderReason], c.reason)
			}
			if attempts.Load() != c.attempts || w.effects("e") != 0 || w.claims() != 0 {
				t.Errorf("%d attempts, %d effects, %d claims", attempts.Load(), w.effects("e"), w.claims())
			}
			for _, h := range []string{letter.HeaderFirstFailure, letter.HeaderFingerprint} {
				if l[h] == "" {
					t.Errorf("letter without %s", h)
				}
			}
			if l[letter.HeaderConsumer] != consumer || l[letter.HeaderLetterKey] != "k" || l[letter.HeaderQueue] != topic || l["event_id"] != "k" {
				t.Errorf("letter %v", l)
			}
		})
	}
}

// A letter that is put back after the handler was mended is processed: the
// failed attempts left no claim.
func TestLetterPutBackIsProcessed(t *testing.T) {
	w := newWorld(t)
	var mended atomic.Bool
	w.handle(w.stack(middleware.StackConfig{}), func(msg *message.Message) error {
		if !mended.Load() {
			return inbox.Permanent(errors.New("broken"))
		}
		return effect(msg.Context(), "e")
	})
	w.run()
	w.publish("k")
	w.until("a letter", func() bool { return len(w.letters) == 1 })
	mended.Store(true)
	must(t, w.broker.Publish(topic, w.letters[0].Copy()))
	w.until("the effect", func() bool { return w.count(inbox.Processed) == 1 })
	if w.effects("e") != 1 {
		t.Errorf("%d effects", w.effects("e"))
	}
}

// A letter that is put back while the handler is still broken gets all its
// attempts again, on whatever way it came back.
func TestLetterPutBackGetsAllAttempts(t *testing.T) {
	w := newWorld(t)
	d := &delayer{w: w}
	var calls atomic.Int64
	w.handle(w.stack(middleware.StackConfig{Delayer: d, MaxAttempts: 3}), func(*message.Message) error { calls.Add(1); return errors.New("broken") })
	w.run()
	w.publish("k")
	w.until("a letter", func() bool { return len(w.letters) == 1 })
	must(t, w.broker.Publish(topic, w.letters[0].Copy()))
	w.until("another letter", func() bool { return len(w.letters) == 2 })
	if calls.Load() != 6 || w.letters[1].Metadata[letter.HeaderAttempt] != "3" {
		t.Errorf("%d calls, letter %v", calls.Load(), w.letters[1].Metadata)
	}
}

// The same key with other content is a letter, never a silent ack.
func TestConflictIsALetter(t *testing.T) {
	w := newWorld(t)
	w.handle(w.stack(middleware.StackConfig{}), func(msg *message.Message) error { return effect(msg.Context(), "e") })
	w.run()
	w.publish("k")
	w.until("the first", func() bool { return w.count(inbox.Processed) == 1 })
	other := message.NewMessage(watermill.NewUUID(), []byte("other content"))
	other.Metadata.Set("event_id", "k")
	must(t, w.broker.Publish(topic, other))
	w.until("a letter", func() bool { return len(w.letters) == 1 })
	if r := w.letters[0].Metadata[letter.HeaderReason]; !strings.Contains(r, inbox.ErrConflict.Error()) {
		t.Errorf("reason %q", r)
	}
	if w.effects("e") != 1 || w.count(inbox.Conflict) != 1 {
		t.Errorf("%d effects, outcomes %v", w.effects("e"), w.outcomes())
	}
}

// A message without a key is a letter by default, and processed without a claim
// where that was chosen.
func TestMessageWithoutKey(t *testing.T) {
	keyless := func() *message.Message {
		m := message.NewMessage("", []byte("x"))
		m.Metadata.Set("event_id", " \t")
		return m
	}
	t.Run("letter", func(t *testing.T) {
		w := newWorld(t)
		w.handle(w.stack(middleware.StackConfig{}), func(msg *message.Message) error { return effect(msg.Context(), "e") })
		w.run()
		must(t, w.broker.Publish(topic, keyless()))
		w.until("a letter", func() bool { return len(w.letters) == 1 })
		if r := w.letters[0].Metadata[letter.HeaderReason]; !strings.Contains(r, inbox.ErrNoKey.Error()) || w.effects("e") != 0 {
			t.Errorf("reason %q, %d effects", r, w.effects("e"))
		}
	})
	t.Run("unclaimed", func(t *testing.T) {
		w := newWorld(t)
		w.handle(w.stack(middleware.StackConfig{Config: middleware.Config{ProcessUnclaimed: true}}), func(msg *message.Message) error { return effect(msg.Context(), "e") })
		w.run()
		must(t, w.broker.Publish(topic, keyless(), keyless()))
		w.until("both", func() bool { return w.count(inbox.Unclaimed) == 2 })
		if w.effects("e") != 2 || w.claims() != 0 {
			t.Errorf("%d effects, %d claims", w.effects("e"), w.claims())
		}
	})
	t.Run("skipped", func(t *testing.T) {
		w := newWorld(t)
		skip := inbox.KeyFunc("skip-all", func(inbox.Message) (string, error) { return "", inbox.Skip })
		acked := make(chan bool)
		w.router.AddMiddleware(func(h message.HandlerFunc) message.HandlerFunc {
			return func(msg *message.Message) ([]*message.Message, error) {
				_, err := h(msg)
				acked <- err == nil
				return nil, err
			}
		})
		w.handle(w.stack(middleware.StackConfig{Config: middleware.Config{Key: skip}}), func(msg *message.Message) error { return effect(msg.Context(), "e") })
		w.run()
		w.publish("k")
		if !<-acked || w.effects("e") != 0 || w.claims() != 0 {
			t.Errorf("%d effects, %d claims", w.effects("e"), w.claims())
		}
	})
}

// Mistakes of the set-up hold the consumer and shout; nothing is dead-lettered,
// and nothing is committed. Mended, the message goes through.
func TestMistakesOfTheSetUpAreHeld(t *testing.T) {
	for name, c := range map[string]struct {
		handler message.HandlerFunc
		says    string
	}{
		"poison queue inside the claim": {func(msg *message.Message) ([]*message.Message, error) {
			poison, err := wmiddleware.PoisonQueue(discard{}, "poisoned")
			if err != nil {
				return nil, err
			}
			return poison(func(msg *message.Message) ([]*message.Message, error) {
				return nil, errors.Join(effect(msg.Context(), "e"), errors.New("broken"))
			})(msg)
		}, "poison queue"},
		"returned messages": {func(msg *message.Message) ([]*message.Message, error) {
			return message.Messages{message.NewMessage("x", nil)}, effect(msg.Context(), "e")
		}, "PublishAfterCommit"},
		"context not passed on": {func(*message.Message) ([]*message.Message, error) {
			return nil, effect(context.Background(), "e")
		}, "pass on the context"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var mended atomic.Bool
			s := w.stack(middleware.StackConfig{})
			w.router.AddPlugin(s.Plugin)
			w.router.AddHandler("handler", topic, w.broker, "elsewhere", w.broker, func(msg *message.Message) ([]*message.Message, error) {
				if mended.Load() {
					return nil, effect(msg.Context(), "e")
				}
				return c.handler(msg)
			}).AddMiddleware(s.Middleware)
			w.run()
			w.publish("k")
			w.until("two runs", func() bool { return len(w.events) >= 2 })
			if w.effects("e") != 0 || w.claims() != 0 || len(w.letters) != 0 {
				t.Errorf("%d effects, %d claims, %d letters", w.effects("e"), w.claims(), len(w.letters))
			}
			if !strings.Contains(w.log.String(), c.says) {
				t.Errorf("log does not say %q:\n%s", c.says, w.log)
			}
			mended.Store(true)
			w.until("the effect", func() bool { return w.count(inbox.Processed) == 1 })
		})
	}
}

// discard is where the misplaced poison queue publishes to.
type discard struct{}

func (discard) Publish(string, ...*message.Message) error { return nil }
func (discard) Close() error                              { return nil }

// A forgotten registration is held and says what to do.
func TestForgottenRegistrationIsHeld(t *testing.T) {
	w := newWorld(t)
	s := w.stack(middleware.StackConfig{})
	w.router.AddConsumerHandler("handler", topic, w.broker, func(msg *message.Message) error { return effect(msg.Context(), "e") }).AddMiddleware(s.Middleware)
	w.run()
	w.publish("k")
	w.until("a run", func() bool { return len(w.events) >= 1 })
	must(t, s.Register(t.Context(), topic))
	w.until("the effect", func() bool { return w.count(inbox.Processed) == 1 })
	if !strings.Contains(w.log.String(), "is not registered") || len(w.letters) != 0 {
		t.Errorf("%d letters; log:\n%s", len(w.letters), w.log)
	}
}

// A plugin that would register nothing keeps the router from starting: its first
// message would be held.
func TestPluginWithoutAConsumerIsToldAtStart(t *testing.T) {
	w := newWorld(t)
	s, err := middleware.NewStack(w.box, middleware.Trust(w.broker), middleware.StackConfig{})
	must(t, err)
	w.router.AddPlugin(s.Plugin)
	w.router.AddConsumerHandler("handler", topic, w.broker, func(*message.Message) error { return nil }).AddMiddleware(s.Middleware)
	err = w.router.Run(t.Context())
	if err == nil {
		t.Fatal("the router ran")
	}
	for _, word := range []string{"Config.Consumer", "ConsumerIsHandler", "SubscriberConfig.Register"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not name %s", err, word)
		}
	}
}

// Messages that a handler returns are published after the commit where that was
// chosen.
func TestPublishAfterCommit(t *testing.T) {
	w := newWorld(t)
	s := w.stack(middleware.StackConfig{Config: middleware.Config{PublishAfterCommit: true}})
	out, err := w.broker.Subscribe(t.Context(), "elsewhere")
	must(t, err)
	w.router.AddPlugin(s.Plugin)
	w.router.AddHandler("handler", topic, w.broker, "elsewhere", w.broker, func(msg *message.Message) ([]*message.Message, error) {
		return message.Messages{message.NewMessage("made", nil)}, effect(msg.Context(), "e")
	}).AddMiddleware(s.Middleware)
	w.run()
	w.publish("k")
	msg := <-out
	msg.Ack()
	if msg.UUID != "made" || w.effects("e") != 1 {
		t.Errorf("message %q, %d effects", msg.UUID, w.effects("e"))
	}
}

// An ack or nack of the handler goes nowhere: only a commit leads to an ack.
func TestEarlyAckGoesNowhere(t *testing.T) {
	w := newWorld(t)
	var calls atomic.Int64
	w.handle(w.stack(middleware.StackConfig{}), func(msg *message.Message) error {
		msg.Ack()
		if calls.Add(1) == 1 {
			return errors.New("after the ack")
		}
		return effect(msg.Context(), "e")
	})
	w.run()
	w.publish("k")
	w.until("the effect", func() bool { return w.count(inbox.Processed) == 1 })
	if calls.Load() != 2 || w.effects("e") != 1 {
		t.Errorf("%d calls, %d effects", calls.Load(), w.effects("e"))
	}
}

// A second run sees the message as it came, whatever the first did to it; what
// the last one set stays.
func TestEachRunGetsItsOwnCopy(t *testing.T) {
	w := newWorld(t)
	seen := make(chan *message.Message, 1)
	w.router.AddMiddleware(func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			p, err := h(msg)
			seen <- msg
			return p, err
		}
	})
	var calls atomic.Int64
	w.handle(w.stack(middleware.StackConfig{}), func(msg *message.Message) error {
		n := calls.Add(1)
		if string(msg.Payload) != "payload of k" || msg.Metadata["mine"] != "" {
			t.Errorf("run %d got %q %v", n, msg.Payload, msg.Metadata)
		}
		copy(msg.Payload, "garbage")
		msg.Metadata.Set("mine", "x")
		if n == 1 {
			return errors.New("once more")
		}
		return nil
	})
	w.run()
	w.publish("k")
	msg := <-seen
	if string(msg.Payload) != "payload of k" || msg.Metadata["mine"] != "x" {
		t.Errorf("afterwards %q %v", msg.Payload, msg.Metadata)
	}
}

// A shutdown in the middle of a handler lets it commit and makes no letter.
func TestShutdownLetsHandlersCommit(t *testing.T) {
	w := newWorld(t)
	inside, release := make(chan struct{}), make(chan struct{})
	delivery := make(chan context.Context, 1)
	w.router.AddMiddleware(func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			delivery <- msg.Context()
			return h(msg)
		}
	})
	w.handle(w.stack(middleware.StackConfig{}), func(msg *message.Message) error {
		close(inside)
		<-release
		if err := msg.Context().Err(); err != nil {
			return err
		}
		return effect(msg.Context(), "e")
	})
	w.run()
	w.publish("k")
	<-inside
	closed := make(chan error)
	go func() { closed <- w.router.Close() }()
	<-(<-delivery).Done() // the router cancels what is being handled
	close(release)
	must(t, <-closed)
	if w.effects("e") != 1 || w.claims() != 1 || len(w.letters) != 0 {
		t.Errorf("%d effects, %d claims, %d letters", w.effects("e"), w.claims(), len(w.letters))
	}
}

// A message that waits for its next retry goes back at a shutdown, without a
// letter.
func TestShutdownEndsRetries(t *testing.T) {
	w := newWorld(t)
	var calls counter
	w.handle(w.stack(middleware.StackConfig{InPlace: time.Hour, MaxAttempts: 1000}), func(*message.Message) error {
		calls.next()
		return errors.New("broken")
	})
	w.run()
	w.publish("k")
	w.until("two runs", func() bool { return len(w.events) >= 2 })
	start := time.Now()
	must(t, w.router.Close())
	if time.Since(start) > 5*time.Second || len(w.letters) != 0 {
		t.Errorf("closed after %s with %d letters", time.Since(start), len(w.letters))
	}
}

// A letter that cannot be published is not acked; it is published once, when
// that works again, and the handler does not run for it meanwhile.
func TestLetterIsKeptUntilConfirmed(t *testing.T) {
	w := newWorld(t)
	var calls, tries atomic.Int64
	flaky := confirmedFunc(func(ctx context.Context, to string, msgs ...*message.Message) []error {
		if tries.Add(1) < 3 {
			return []error{errors.New("nacked")}
		}
		return middleware.Trust(w.broker).PublishEach(ctx, to, msgs...)
	})
	s, err := middleware.NewStack(w.box, flaky, middleware.StackConfig{Config: middleware.Config{Consumer: consumer}})
	must(t, err)
	w.handle(s, func(*message.Message) error { calls.Add(1); return inbox.Permanent(errors.New("broken")) })
	w.run()
	w.publish("k")
	w.until("a letter", func() bool { return len(w.letters) == 1 })
	if calls.Load() != 1 || tries.Load() != 3 {
		t.Errorf("%d calls, %d tries", calls.Load(), tries.Load())
	}
}

type confirmedFunc func(ctx context.Context, topic string, msgs ...*message.Message) []error

func (f confirmedFunc) PublishEach(ctx context.Context, topic string, msgs ...*message.Message) []error {
	return f(ctx, topic, msgs...)
}

// Waits are no attempts: a delayed retry carries the attempts, and the last one
// makes the letter.
func TestDelayedRetryCarriesAttempts(t *testing.T) {
	w := newWorld(t)
	d := &delayer{w: w}
	var calls atomic.Int64
	w.handle(w.stack(middleware.StackConfig{Delayer: d, MaxAttempts: 4}), func(*message.Message) error { calls.Add(1); return errors.New("broken") })
	w.run()
	w.publish("k")
	w.until("a letter", func() bool { return len(w.letters) == 1 })
	if calls.Load() != 4 || w.letters[0].Metadata[letter.HeaderAttempt] != "4" {
		t.Errorf("%d calls, letter %v", calls.Load(), w.letters[0].Metadata)
	}
	if want := inbox.DefaultDelays()[:3]; len(d.waits) != 3 || d.waits[0] != want[0] || d.waits[1] != want[1] || d.waits[2] != want[2] {
		t.Errorf("waits %v", d.waits)
	}
}

// delayer puts messages back at once, and notes how long it should have waited.
type delayer struct {
	w     *world
	waits []time.Duration
}

func (d *delayer) Delay(_ context.Context, msg *message.Message, wait time.Duration) (time.Duration, error) {
	d.waits = append(d.waits, wait)
	return wait, d.w.broker.Publish(topic, msg.Copy())
}

// Configuration faults are all named at once.
func TestConfigurationFaultsAreNamed(t *testing.T) {
	_, err := middleware.NewStack(nil, nil, middleware.StackConfig{
		Config: middleware.Config{Consumer: "a", ConsumerIsHandler: true},
		Delays: []time.Duration{0}, MaxAttempts: -1,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{"letters", "inbox", "Delays", "MaxAttempts"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%q is not named in: %v", field, err)
		}
	}
}

// The AMQP message-id is the same key with either AMQP subscriber: it comes
// before the UUID that Watermill's producers add.
func TestMessageIDComesBeforeTheUUID(t *testing.T) {
	w := newWorld(t)
	w.handle(w.stack(middleware.StackConfig{}), func(msg *message.Message) error { return effect(msg.Context(), "e") })
	w.run()
	for range 2 {
		m := message.NewMessage(watermill.NewUUID(), []byte("x"))
		m.Metadata.Set("amqp-message-id", "m-1")
		must(t, w.broker.Publish(topic, m))
	}
	w.until("both", func() bool { return len(w.events) == 2 })
	if o := w.outcomes(); o[inbox.Processed] != 1 || o[inbox.Duplicate] != 1 {
		t.Errorf("outcomes %v", o)
	}
}
