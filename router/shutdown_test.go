package router_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/router"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// A handler that does not end costs one CloseTimeout, not one for each layer, and
// Run says that it was left behind: who kills the process after 30 s must not
// come first.
func TestHandlerThatDoesNotEndIsLeftBehindAfterOneCloseTimeout(t *testing.T) {
	const timeout = 2 * time.Second
	r := newRig(t)
	var e events
	begun, release := make(chan struct{}, 1), make(chan struct{})
	svc := r.service(r.box("test", 4, &e), router.Config{Topology: &rabbit.Topology{}, CloseTimeout: timeout}, func(msg *message.Message) error {
		begun <- struct{}{}
		<-release
		return effect(msg)
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	<-svc.Watermill().Running()
	r.send(event("event", "effect"))
	<-begun

	start := time.Now()
	cancel()
	err := <-done
	if spent := time.Since(start); spent < timeout || spent > 2*timeout {
		t.Errorf("ended after %s, want %s and a little", spent, timeout)
	}
	if err == nil {
		t.Fatal("no error although a handler was still running")
	}
	r.says(err.Error(), "still running: 1", "2s", "delivered again", "CloseTimeout")
	for _, word := range []string{"All messages processed", "Cannot close router"} {
		if strings.Contains(r.log.String(), word) {
			t.Errorf("the log says %q", word)
		}
	}
	r.eventually("the message is back in its queue", func() bool { return r.ready(queue) == 1 })
	close(release)
	r.eventually("the handler commits after all", func() bool { return e.of(inbox.Processed) == 1 })
	r.effects(1)
}

// Handlers that end in time end without an error, and at once.
func TestHandlersThatEndInTimeAreWaitedFor(t *testing.T) {
	r := newRig(t)
	var e events
	begun, release := make(chan struct{}, 1), make(chan struct{})
	stop := r.start(r.box("test", 4, &e), router.Config{Topology: &rabbit.Topology{}, CloseTimeout: patience}, func(msg *message.Message) error {
		begun <- struct{}{}
		<-release
		return effect(msg)
	})
	r.send(event("event", "effect"))
	<-begun
	ended := make(chan struct{})
	go func() { defer close(ended); stop() }()
	r.logged("Closing router")
	close(release)
	<-ended
	r.effects(1)
	r.nothingLeft()
}
