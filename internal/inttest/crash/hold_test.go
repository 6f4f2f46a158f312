package crash

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// commit is the COMMIT of both drivers as it goes over the wire, in lower case: a
// simple query that holds nothing else.
var commit = []byte("\x00\x00\x00\x0bcommit\x00")

// holder passes the traffic of a PostgreSQL server on until a client sends
// COMMIT, once it is armed. From then on nothing passes on that connection in either direction, and
// neither side hears of it: as when the network is gone.
type holder struct {
	// deliver lets the COMMIT itself through; its answer is held.
	deliver bool
	// outlive keeps the server's side open when the client has died, until
	// release: the server believes that the client is there.
	outlive bool

	armed    atomic.Bool
	listener net.Listener
	server   string
	held     chan struct{} // closed when a COMMIT is held
	released chan struct{}
	once     sync.Once
	release  func()
	running  sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// hold starts a holder before the server of the database's URL and returns the
// URL through it.
func hold(t *testing.T, database string, h *holder) (through string) {
	t.Helper()
	u, err := url.Parse(database)
	must(t, err)
	h.server = u.Host
	h.held, h.released = make(chan struct{}), make(chan struct{})
	h.release = sync.OnceFunc(func() { close(h.released) })
	h.listener, err = net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	h.running.Go(h.accept)
	t.Cleanup(func() {
		h.release()
		_ = h.listener.Close()
		h.mu.Lock()
		for _, c := range h.conns {
			_ = c.Close()
		}
		h.mu.Unlock()
		h.running.Wait()
	})
	u.Host = h.listener.Addr().String()
	return u.String()
}

func (h *holder) accept() {
	for {
		client, err := h.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", h.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		h.mu.Lock()
		h.conns = append(h.conns, client, server)
		h.mu.Unlock()
		p := &pipe{holder: h, client: client, server: server, silent: make(chan struct{})}
		h.running.Go(p.requests)
		h.running.Go(p.answers)
	}
}

// pipe is one connection.
type pipe struct {
	holder         *holder
	client, server net.Conn
	silent         chan struct{} // closed when nothing passes any more
}

func (p *pipe) requests() {
	h := p.holder
	defer p.server.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := p.client.Read(buf)
		if err != nil {
			break
		}
		select {
		case <-p.silent:
			continue
		default:
		}
		found := h.armed.Load() && bytes.Contains(bytes.ToLower(buf[:n]), commit)
		if found {
			close(p.silent)
			if !h.deliver {
				h.once.Do(func() { close(h.held) })
				continue
			}
		}
		if _, err := p.server.Write(buf[:n]); err != nil {
			break
		}
	}
	select {
	case <-p.silent:
		if h.outlive {
			<-h.released
		}
	default:
	}
}

func (p *pipe) answers() {
	defer p.client.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := p.server.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-p.silent: // the answer to COMMIT, if it was delivered
			p.holder.once.Do(func() { close(p.holder.held) })
			continue
		default:
		}
		if _, err := p.client.Write(buf[:n]); err != nil {
			return
		}
	}
}
