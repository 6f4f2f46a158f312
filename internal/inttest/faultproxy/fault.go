package faultproxy

import (
	"bytes"
	"slices"
	"sync"
)

// Fault is one planned loss.
type Fault struct {
	proxy      *Proxy
	pattern    []byte // lower case
	loseAnswer bool
	struck     chan struct{}
	once       sync.Once
	left       int // matches until it strikes; guarded by proxy.mu
}

// LoseRequest cuts the connection on which the pattern passes from a client to the server for the nth time from now on, counted
// over all connections, before the server gets it: the request is lost, and the client cannot know. The pattern is found in any
// case, and where it spans several packets. It strikes once.
func (p *Proxy) LoseRequest(pattern string, nth int) *Fault { return p.plan(pattern, nth, false) }

// LoseAnswer lets the pattern through to the server, waits for the server's answer, drops it and cuts the connection: the
// request took effect, and the client cannot know. Else it is as LoseRequest.
func (p *Proxy) LoseAnswer(pattern string, nth int) *Fault { return p.plan(pattern, nth, true) }

func (p *Proxy) plan(pattern string, nth int, loseAnswer bool) *Fault {
	f := &Fault{
		proxy: p, pattern: bytes.ToLower([]byte(pattern)), loseAnswer: loseAnswer, left: nth, struck: make(chan struct{}),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
	return f
}

// Struck returns a channel that is closed when the fault has struck: the connection is being cut.
func (f *Fault) Struck() <-chan struct{} { return f.struck }

// Cancel takes the fault back if it has not struck.
func (f *Fault) Cancel() {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	f.proxy.forget(f)
}

func (f *Fault) strike(c *conn) {
	c.cut()
	f.once.Do(func() { close(f.struck) })
}

// forget is called with p.mu held.
func (p *Proxy) forget(f *Fault) {
	p.faults = slices.DeleteFunc(p.faults, func(other *Fault) bool { return other == f })
}

// scanner looks for the faults' patterns in what one client sends. It remembers the end of what it saw, in lower case, for
// patterns that span packets.
type scanner struct{ tail []byte }

// scan returns the fault that the data sets off, if any.
func (s *scanner) scan(p *Proxy, data []byte) *Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := slices.Concat(s.tail, bytes.ToLower(data))
	var due *Fault
	longest := 0
	for _, f := range slices.Clone(p.faults) {
		longest = max(longest, len(f.pattern))
		// Matches that lie wholly in the tail were counted with the data before.
		from := max(0, len(s.tail)-len(f.pattern)+1)
		for due == nil {
			at := bytes.Index(seen[from:], f.pattern)
			if at < 0 {
				break
			}
			from += at + len(f.pattern)
			if f.left--; f.left == 0 {
				p.forget(f)
				due = f
			}
		}
	}
	// A fault that is planned between two packets finds the beginning of its pattern here, too.
	const most = 64
	keep := min(len(seen), max(longest, most))
	s.tail = bytes.Clone(seen[len(seen)-keep:])
	return due
}
