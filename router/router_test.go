package router_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/router"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// runService is a whole service, in the lines that a user writes.
func runService(ctx context.Context, databaseURL, brokerURL string) error {
	db, err := sql.Open("postgres", databaseURL)
	if err != nil {
		return err
	}
	defer db.Close()
	box, err := pginbox.Open(ctx, db, pginbox.Config{})
	if err != nil {
		return err
	}
	svc, err := router.New(brokerURL, box, router.Config{Topology: &rabbit.Topology{}})
	if err != nil {
		return err
	}
	if err := svc.Handle(queue, effect); err != nil {
		return err
	}
	return svc.Run(ctx)
}

func TestServiceInTwentyLines(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- runService(ctx, r.database, r.broker) }()
	r.eventually("the service declares its queue", func() bool {
		ch, err := r.channel()
		r.must(err)
		defer ch.Close()
		_, err = ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err == nil
	})
	r.sendEvents(20, 2)
	r.eventually("all events took effect", func() bool { return r.count("SELECT count(*) FROM effects") >= 20 })
	cancel()
	r.must(<-done)
	// Copies that were not begun are back in the queue.
	r.effects(20)
	if n := r.ready(rabbit.DeadLetterQueue(queue)); n != 0 {
		t.Errorf("%d letters, want none", n)
	}
}

// The publisher of a service reaches the handler of the same topic.
func TestPublisherAndHandlerShareTopics(t *testing.T) {
	r := newRig(t)
	var e events
	svc := r.service(r.box("test", 4, &e), router.Config{Topics: rabbit.PubSub("stock"), Topology: quick()}, effect)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	<-svc.Watermill().Running()
	msg := message.NewMessage(watermill.NewUUID(), []byte("effect"))
	msg.Metadata.Set("event_id", "event")
	r.must(svc.Publisher().Publish(queue, msg))
	r.eventually("the event took effect", func() bool { return e.of(inbox.Processed) == 1 })
	cancel()
	r.must(<-done)
	r.effects(1)
}

func TestConcurrencyIsLoweredToThePool(t *testing.T) {
	r := newRig(t)
	var e events
	const size = 3
	running, most := make(chan struct{}, 100), 0
	release := make(chan struct{})
	r.start(r.box("test", size, &e), router.Config{Topology: quick(), Concurrency: 20}, func(msg *message.Message) error {
		running <- struct{}{}
		<-release
		return effect(msg)
	})
	r.says(r.logged("concurrency lowered"), "SetMaxOpenConns", "concurrency=20", "connections=3")
	r.sendEvents(10, 1)
	for range size {
		<-running
		most++
	}
	close(release)
	r.eventually("all events took effect", func() bool { return e.of(inbox.Processed) == 10 })
	if most != size || e.total() != 10 {
		t.Errorf("%d at once and %d runs, want %d and 10", most, e.total(), size)
	}
	r.effects(10)
}

func TestWrongConfigurationIsToldAtOnce(t *testing.T) {
	_, err := router.New("amqp://guest:secret@localhost:1/%zz", nil, router.Config{
		Concurrency: -1, StartTimeout: -1, CloseTimeout: -1, Topology: &rabbit.Topology{QueueType: "stream"},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, word := range []string{"Concurrency", "StartTimeout", "CloseTimeout", "inbox is nil", "URL"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not name %s", err, word)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("%q repeats the password", err)
	}
}

func TestSecondHandlerOfAQueueIsRefused(t *testing.T) {
	r := newRig(t)
	var e events
	svc := r.service(r.box("test", 2, &e), router.Config{}, effect)
	if err := svc.Handle(queue, effect); err == nil {
		t.Error("a second handler of the queue was taken")
	}
	if err := svc.Handle("other", nil); err == nil {
		t.Error("a nil handler was taken")
	}
	// It was never run: the connection was never dialled, and nothing is left.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.must(svc.Run(ctx))
}

func TestRouterRunsOnce(t *testing.T) {
	r := newRig(t)
	var e events
	svc := r.service(r.box("test", 2, &e), router.Config{Topology: quick()}, effect)
	stop := r.run(svc)
	r.says(r.refused(svc).Error(), "New")
	r.send(event("event", "effect"))
	r.eventually("the first Run goes on", func() bool { return e.of(inbox.Processed) == 1 })
	stop()
	r.says(r.refused(svc).Error(), "New")
	r.effects(1)
}
