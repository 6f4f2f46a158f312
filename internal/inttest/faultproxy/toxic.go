package faultproxy

import (
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

const toxicType = "sekali_fault"

// Toxiproxy makes toxics from JSON: they find their proxy by number.
var proxies struct {
	sync.Mutex

	last int
	by   map[int]*Proxy
}

func init() {
	proxies.by = make(map[int]*Proxy)
	toxics.Register(toxicType, new(toxic))
}

func register(p *Proxy) int {
	proxies.Lock()
	defer proxies.Unlock()
	proxies.last++
	proxies.by[proxies.last] = p
	return proxies.last
}

func unregister(p *Proxy) {
	proxies.Lock()
	defer proxies.Unlock()
	for id, other := range proxies.by {
		if other == p {
			delete(proxies.by, id)
		}
	}
}

// toxic is the last stage of each link.
type toxic struct {
	Proxy     int    `json:"proxy"`
	Direction string `json:"direction"`
}

// NewState implements toxics.StatefulToxic: it is called once for each link, when the link starts.
func (t *toxic) NewState() any {
	proxies.Lock()
	p := proxies.by[t.Proxy]
	proxies.Unlock()
	if p == nil {
		return nil
	}
	return p.join(t.Direction)
}

// Pipe implements toxics.Toxic: it moves the data of one link until the link ends.
func (t *toxic) Pipe(stub *toxics.ToxicStub) {
	c, ok := stub.State.(*conn)
	if !ok { // the proxy was closed while the connection came in
		stub.Close()
		drain(stub)
		return
	}
	defer c.proxy.leave(c)
	defer drain(stub)
	defer stub.Close()
	if t.Direction == up {
		t.requests(stub, c)
	} else {
		t.answers(stub, c)
	}
}

func (t *toxic) requests(stub *toxics.ToxicStub, c *conn) {
	var scan scanner
	for {
		chunk, ok := t.take(stub, c)
		if !ok {
			return
		}
		c.request()
		fault := scan.scan(c.proxy, chunk.Data)
		if fault != nil && !fault.loseAnswer {
			fault.strike(c)
			return
		}
		if fault != nil {
			c.silenceServer(fault, false)
		}
		if !t.give(stub, c, chunk) {
			return
		}
		if fault != nil {
			c.silenceServer(fault, true)
		}
	}
}

func (t *toxic) answers(stub *toxics.ToxicStub, c *conn) {
	for {
		chunk, ok := t.take(stub, c)
		if !ok {
			return
		}
		pass, fault := c.answer()
		if fault != nil {
			fault.strike(c)
			return
		}
		if pass && !t.give(stub, c, chunk) {
			return
		}
	}
}

// give hands the chunk to the link's writer, or returns false when the connection is cut.
func (t *toxic) give(stub *toxics.ToxicStub, c *conn, chunk *stream.StreamChunk) bool {
	select {
	case stub.Output <- chunk:
		return true
	case <-c.dead:
		return false
	}
}

// take returns the next chunk when it may pass, or false when the link is to end.
func (t *toxic) take(stub *toxics.ToxicStub, c *conn) (*stream.StreamChunk, bool) {
	var chunk *stream.StreamChunk
	select {
	case <-c.dead:
		return nil, false
	case chunk = <-stub.Input: // nil: the sender has closed
	}
	for hole := c.proxy.held(); hole != nil; hole = c.proxy.held() {
		select {
		case <-c.dead:
			return nil, false
		case <-hole:
		}
	}
	if chunk == nil {
		return nil, false
	}
	if delay := c.proxy.slowness(); delay > 0 {
		timer := time.NewTimer(time.Until(chunk.Timestamp.Add(delay)))
		defer timer.Stop()
		select {
		case <-c.dead:
			return nil, false
		case <-timer.C:
		}
	}
	return chunk, true
}

// drain takes what the stages before still send, until the sender's side is closed, so that none of them waits for ever.
func drain(stub *toxics.ToxicStub) {
	for chunk := range stub.Input {
		if chunk == nil {
			return
		}
	}
}
