package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// Ten messages that fail again and again, with growing delays, hold up none of
// the thousand behind them, and are tried when it is their time.
func TestFailingMessagesHoldUpNoOthers(t *testing.T) {
	const failing, good, window, attempts = 10, 1000, 50, 5
	steps := []time.Duration{300 * time.Millisecond, 700 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second}
	r := newRig(t)
	box, _ := r.shop()
	queue := testservices.Name(t)
	pub := r.publisher(rabbit.PublisherConfig{})
	delayer, err := rabbit.NewDelayer(pub, rabbit.DelayerConfig{Steps: steps})
	r.must(err)
	stack, err := middleware.NewStack(box, pub.ToQueues(), middleware.StackConfig{Delayer: delayer, Delays: steps, MaxAttempts: attempts})
	r.must(err)
	var mu sync.Mutex
	tried := map[string][]time.Time{}
	done := map[string]bool{}
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(done) }
	mill, err := message.NewRouter(message.RouterConfig{}, nil)
	r.must(err)
	sub := r.subscriber(rabbit.SubscriberConfig{Concurrency: 4, Topology: &rabbit.Topology{RetrySteps: steps}, Register: stack.Register})
	mill.AddConsumerHandler("h", queue, sub, func(msg *message.Message) error {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(msg.UUID, "failing") {
			tried[msg.UUID] = append(tried[msg.UUID], time.Now())
			return errors.New("the supplier does not answer")
		}
		done[msg.UUID] = true
		return nil
	}).AddMiddleware(stack.Middleware)
	ended := make(chan error, 1)
	go func() { ended <- mill.Run(context.Background()) }()
	<-mill.Running()

	// A queue that is kept short: what comes back joins its end.
	round := func(name string) time.Duration {
		begin, before := time.Now(), count()
		for i := range good {
			r.send(queue, amqp.Publishing{MessageId: fmt.Sprint(name, i), Body: []byte("good")})
			if i%window == 0 {
				r.eventually("the consumer keeps up", func() bool { return count() >= before+i-window })
			}
		}
		r.eventually("the good ones are done", func() bool { return count() == before+good })
		return time.Since(begin)
	}
	alone := round("alone")
	for i := range failing {
		r.send(queue, amqp.Publishing{MessageId: fmt.Sprint("failing", i), Body: []byte("failing")})
	}
	behind := round("behind")
	r.eventually("the failing ones are letters", func() bool { return r.ready(rabbit.DeadLetterQueue(queue)) == failing })
	r.must(mill.Close())
	r.must(<-ended)

	t.Logf("%d good messages took %s alone, %s behind %d failing ones", good, alone.Round(time.Millisecond), behind.Round(time.Millisecond), failing)
	if behind > 2*alone+time.Second {
		t.Error("the good ones were held up")
	}
	// What comes back waits for those before it, and for the machine.
	slack := 2*time.Second + max(alone, behind)/10
	if len(tried) != failing {
		t.Errorf("%d failing messages were tried", len(tried))
	}
	for i := range failing {
		name := fmt.Sprint("failing", i)
		at := tried[name]
		var waits []string
		for n, when := range at[1:] {
			wait := when.Sub(at[n])
			waits = append(waits, fmt.Sprint(wait.Round(10*time.Millisecond)))
			// The delay of that attempt or a neighbouring one.
			if least, most := steps[max(n-1, 0)], steps[min(n+1, len(steps)-1)]; wait < least || wait > most+slack {
				t.Errorf("%s: attempt %d came after %s, want %s to %s", name, n+2, wait, least, most)
			}
		}
		t.Logf("%s: %d attempts, after %s", name, len(at), strings.Join(waits, ", "))
		if len(at) != attempts || !slices.IsSortedFunc(at, time.Time.Compare) {
			t.Errorf("%s was tried %d times, want %d", name, len(at), attempts)
		}
	}
}
