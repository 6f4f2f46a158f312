package rabbittest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sekali-mq/sekali/internal/inttest/faultproxy"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// A broker that lets in and then cuts the connection is one that cannot be
// reached: the waits go on growing, as if each login had failed.
func TestShortLivedConnectionsAreNoHotLoop(t *testing.T) {
	const enough = 14
	var proxy atomic.Pointer[faultproxy.Proxy]
	lost := make(chan int, 1000)
	conn, p := throughProxy(t, rabbit.ConnectionConfig{
		ReconnectMin: 20 * time.Millisecond, ReconnectMax: 500 * time.Millisecond,
		OnState: func(c rabbit.StateChange) {
			switch c.State {
			case rabbit.Connected:
				proxy.Load().Cut()
			case rabbit.Disconnected:
				lost <- c.Attempt
			default:
			}
		},
	})
	proxy.Store(p)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	looked := make(chan struct{})
	start := time.Now()
	go func() {
		defer close(looked)
		_ = conn.FindQueue(ctx, "any") // connects, and then once more each time it is cut
	}()
	limit := time.After(40 * time.Second)
	for n := 1; n <= enough; n++ {
		select {
		case attempt := <-lost:
			if attempt != n {
				t.Errorf("the %d. loss is told as attempt %d: the waits began anew", n, attempt)
			}
		case <-limit:
			t.Fatalf("%d losses in 40 s", n-1)
		}
	}
	// Thirteen waits of 20 to 500 ms, by chance half of that: 2.3 s on the average.
	if took := time.Since(start); took < 400*time.Millisecond {
		t.Errorf("%d connections in %s", enough, took)
	}
	cancel()
	<-looked
	if n := p.Connections(); n > enough+2 {
		t.Errorf("%d connections for %d losses", n, enough)
	}
}
