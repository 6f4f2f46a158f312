package inboxtest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy stands between a client and a database server that speak without TLS. It
// breaks connections at a chosen statement, and counts round trips.
type Proxy struct {
	target string
	listen net.Listener
	wg     sync.WaitGroup
	trips  atomic.Int64

	mu    sync.Mutex
	down  bool
	conns map[net.Conn]struct{}
	armed *cut
	named map[string]string // see Prepared
}

var _ Network = (*Proxy)(nil)

// cut waits for a statement.
type cut struct {
	statement string
	deliver   bool // the server gets it; only the answer is lost
}

// NewProxy listens on a free port of 127.0.0.1 and hands connections on to the
// server's host:port until the end of the test.
func NewProxy(t testing.TB, server string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen for a proxy: %v", err)
	}
	p := &Proxy{target: server, listen: l, conns: make(map[net.Conn]struct{})}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.Down()
		_ = l.Close()
		p.wg.Wait()
	})
	return p
}

// Addr is the host:port on which the proxy listens.
func (p *Proxy) Addr() string { return p.listen.Addr().String() }

// CutAnswer implements Network.
func (p *Proxy) CutAnswer(statement string) { p.arm(&cut{statement: statement, deliver: true}) }

// CutRequest implements Network.
func (p *Proxy) CutRequest(statement string) { p.arm(&cut{statement: statement}) }

func (p *Proxy) arm(c *cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = c
}

// Down implements Network.
func (p *Proxy) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for c := range p.conns {
		_ = c.Close()
	}
}

// Up implements Network.
func (p *Proxy) Up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// Prepared tells under which name a driver prepares a statement, so that it is known
// when it is sent by its name, as an extended query of PostgreSQL.
func (p *Proxy) Prepared(statement, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.named == nil {
		p.named = make(map[string]string)
	}
	p.named[statement] = name
}

// Trips is how many times a client has sent something and waited for the answer,
// over all connections so far.
func (p *Proxy) Trips() int { return int(p.trips.Load()) }

func (p *Proxy) accept() {
	for {
		c, err := p.listen.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(c) })
	}
}

// keep registers a connection; false when the proxy is down.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		_ = c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}

func (p *Proxy) serve(client net.Conn) {
	if !p.keep(client) {
		return
	}
	defer p.drop(client)
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	if !p.keep(server) {
		return
	}
	defer p.drop(server)

	var asked, mute atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() { // answers
		defer func() { _, _ = client.Close(), server.Close() }()
		_ = pump(server, func(b []byte) error {
			asked.Store(false)
			if mute.Load() {
				return errCut
			}
			_, err := client.Write(b)
			return err
		})
	})
	_ = pump(client, func(b []byte) error {
		if c := p.take(b); c != nil {
			if !c.deliver {
				return errCut
			}
			mute.Store(true)
		}
		if asked.CompareAndSwap(false, true) {
			p.trips.Add(1)
		}
		_, err := server.Write(b)
		return err
	})
	if !mute.Load() {
		_ = server.Close()
	}
	wg.Wait()
}

// errCut ends a connection at the chosen statement.
var errCut = errors.New("cut")

func pump(from io.Reader, to func([]byte) error) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if err := to(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// take disarms and returns the cut when b ends with its statement, as a message
// of the PostgreSQL or MySQL protocol does that holds nothing else, or when it has
// the statement's name and not its text, as a message that prepares it would.
func (p *Proxy) take(b []byte) *cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.armed
	if c == nil {
		return nil
	}
	if name, ok := p.named[c.statement]; ok && bytes.Contains(b, []byte(name+"\x00")) && !bytes.Contains(bytes.ToUpper(b), []byte(c.statement+"\x00")) {
		p.armed = nil
		return c
	}
	b = bytes.TrimRight(b, "\x00;")
	n := len(b) - len(c.statement)
	if n < 1 || !bytes.EqualFold(b[n:], []byte(c.statement)) || b[n-1] >= ' ' {
		return nil
	}
	p.armed = nil
	return c
}
