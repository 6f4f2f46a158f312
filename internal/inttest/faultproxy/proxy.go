package faultproxy

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy is a TCP proxy with faults. Its methods may be called from any goroutine while data flows; Down, Up and those that
// create it end the test when they fail and belong to the test's goroutine.
type Proxy struct {
	t     testing.TB
	proxy *toxiproxy.Proxy
	addr  string

	trips    atomic.Int64
	accepted atomic.Int64
	pipes    sync.WaitGroup

	mu     sync.Mutex
	conns  map[*conn]struct{}
	half   *conn // its upstream link has started, its downstream link starts next
	hole   chan struct{}
	delay  time.Duration
	faults []*Fault
}

// New starts a proxy to the server at upstream, a host:port, and stops it at the end of the test.
func New(t testing.TB, upstream string) *Proxy {
	t.Helper()
	logger := zerolog.New(io.Discard).Level(zerolog.Disabled)
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), logger)
	p := &Proxy{t: t, conns: make(map[*conn]struct{})}
	var err error
	// Below the range of ports for outgoing connections, so that nobody takes the port while the proxy is down.
	for range 20 {
		p.proxy = toxiproxy.NewProxy(server, "faultproxy", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(10000)), upstream)
		if err = p.proxy.Start(); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatalf("start a proxy to %s: %v", upstream, err)
	}
	p.addr = p.proxy.Listen
	t.Cleanup(p.close)
	id := register(p)
	for _, direction := range []string{up, down} {
		toxic := fmt.Sprintf(`{"type":%q,"name":%q,"stream":%q,"attributes":{"proxy":%d,"direction":%q}}`,
			toxicType, direction, direction, id, direction)
		if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			t.Fatalf("install the toxic: %v", err)
		}
	}
	return p
}

func (p *Proxy) close() {
	unregister(p)
	p.Heal()
	p.Cut()
	p.proxy.Stop()
	// A connection that was accepted while Cut ran.
	p.Cut()
	p.pipes.Wait()
}

// Addr returns the host:port on which clients reach the server.
func (p *Proxy) Addr() string { return p.addr }

// Cut closes all connections now, on both sides; new ones are taken.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.cut()
	}
}

// Down closes all connections and refuses new ones, as a server does that has ended.
func (p *Proxy) Down() {
	p.Cut()
	p.proxy.Stop()
	p.Cut()
}

// Up takes connections again after Down, on the same address.
func (p *Proxy) Up() {
	p.t.Helper()
	if err := p.proxy.Start(); err != nil {
		p.t.Fatalf("take connections on %s again: %v", p.addr, err)
	}
}

// BlackHole lets nothing through any more, in both directions: connections stay open, new ones are taken, and neither side
// hears of the other, not even of its end, as when the network between them is gone. Heal delivers what was held.
func (p *Proxy) BlackHole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hole == nil {
		p.hole = make(chan struct{})
	}
}

// Heal ends BlackHole and Slow.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hole != nil {
		close(p.hole)
		p.hole = nil
	}
	p.delay = 0
}

// Slow delays what passes by d in each direction; a round trip takes 2d longer.
func (p *Proxy) Slow(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// RoundTrips returns how many times a client spoke after its server had, over all connections: the number of times that
// somebody waited for the network. Requests sent together, without waiting for answers in between, count once. A test takes the
// difference of two calls.
func (p *Proxy) RoundTrips() int64 { return p.trips.Load() }

// Connections returns how many connections the proxy has taken.
func (p *Proxy) Connections() int64 { return p.accepted.Load() }

// held returns the channel that Heal closes, or nil when data may pass.
func (p *Proxy) held() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hole
}

func (p *Proxy) slowness() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

// join returns the connection of a link that starts. Toxiproxy starts the two links of a connection one after the other, the
// upstream one first, on the one goroutine that accepts; it does not say which belong together.
func (p *Proxy) join(direction string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pipes.Add(1)
	if direction == down {
		c := p.half
		p.half = nil
		return c
	}
	p.accepted.Add(1)
	c := &conn{proxy: p, dead: make(chan struct{}), pipes: 2}
	p.conns[c] = struct{}{}
	p.half = c
	return c
}

// leave is called when a link of the connection has ended.
func (p *Proxy) leave(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pipes.Done()
	if c.pipes--; c.pipes == 0 {
		delete(p.conns, c)
	}
}
