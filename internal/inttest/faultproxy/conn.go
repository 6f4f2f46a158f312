package faultproxy

import "sync"

// The directions, in Toxiproxy's words.
const (
	up   = "upstream"   // client to server
	down = "downstream" // server to client
)

// conn is one connection through the proxy: what its two links share.
type conn struct {
	proxy *Proxy
	dead  chan struct{} // closed when the connection is to be cut
	once  sync.Once
	pipes int // links that have not ended; guarded by proxy.mu

	mu      sync.Mutex
	spoke   string // the direction of what passed last
	silence *Fault // nothing that the server says passes any more
	asked   bool   // the server has the request whose answer is to be lost
}

func (c *conn) cut() { c.once.Do(func() { close(c.dead) }) }

// request notes data from the client, and counts a round trip when the client speaks after the server.
func (c *conn) request() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spoke != up {
		c.proxy.trips.Add(1)
	}
	c.spoke = up
}

// answer notes data from the server. It returns whether the data may pass, and the fault that it sets off, if any.
func (c *conn) answer() (bool, *Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spoke = down
	if c.asked {
		return false, c.silence
	}
	return c.silence == nil, nil
}

// silenceServer lets nothing of the server pass from now on; asked says that the request is on its way to the server, so that
// the next thing the server says is taken for the answer.
func (c *conn) silenceServer(f *Fault, asked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silence, c.asked = f, asked
}
