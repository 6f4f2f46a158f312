package faultproxy_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sekali-mq/sekali/internal/inttest/faultproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

// echo answers every line with the line, and remembers what it read.
type echo struct {
	listener net.Listener
	conns    sync.WaitGroup

	mu    sync.Mutex
	lines []string
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{listener: listener}
	e.conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			e.conns.Go(func() { e.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		e.conns.Wait()
	})
	return e
}

func (e *echo) serve(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return
		}
		e.mu.Lock()
		e.lines = append(e.lines, strings.TrimSpace(line))
		e.mu.Unlock()
		if _, err := io.WriteString(conn, line); err != nil {
			return
		}
	}
}

func (e *echo) seen() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.lines, " ")
}

type client struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
}

func dial(t *testing.T, proxy *faultproxy.Proxy) *client {
	t.Helper()
	conn, err := net.DialTimeout("tcp", proxy.Addr(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &client{t: t, conn: conn, reader: bufio.NewReader(conn)}
	c.limit(patience)
	return c
}

func (c *client) limit(d time.Duration) {
	c.t.Helper()
	if err := c.conn.SetDeadline(time.Now().Add(d)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, text); err != nil {
		c.t.Fatalf("send %q: %v", text, err)
	}
}

func (c *client) ask(line string) {
	c.t.Helper()
	c.send(line + "\n")
	if answer, err := c.reader.ReadString('\n'); err != nil || answer != line+"\n" {
		c.t.Fatalf("asked %q, got %q, %v", line, answer, err)
	}
}

// cut checks that the connection ends without another byte.
func (c *client) cut() {
	c.t.Helper()
	got, err := c.reader.ReadString('\n')
	if err == nil || got != "" || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("got %q, %v from a connection that was cut", got, err)
	}
}

func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("no %s within %v", what, patience)
	}
}

func newProxy(t *testing.T) (*faultproxy.Proxy, *echo) {
	t.Helper()
	e := newEcho(t)
	return faultproxy.New(t, e.listener.Addr().String()), e
}

func TestPassesEverythingWithoutAFault(t *testing.T) {
	proxy, _ := newProxy(t)
	c := dial(t, proxy)
	c.ask("one")
	c.ask(strings.Repeat("x", 1<<20))
	if n := proxy.Connections(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestCutEndsOpenConnectionsAndTakesNewOnes(t *testing.T) {
	proxy, _ := newProxy(t)
	a, b := dial(t, proxy), dial(t, proxy)
	a.ask("a")
	b.ask("b")
	proxy.Cut()
	a.cut()
	b.cut()
	dial(t, proxy).ask("c")
}

func TestDownRefusesConnectionsUntilUp(t *testing.T) {
	proxy, _ := newProxy(t)
	c := dial(t, proxy)
	c.ask("before")
	proxy.Down()
	c.cut()
	if conn, err := net.DialTimeout("tcp", proxy.Addr(), patience); err == nil {
		conn.Close()
		t.Fatal("a connection was taken while down")
	}
	proxy.Up()
	dial(t, proxy).ask("after")
}

func TestBlackHoleHoldsDataUntilHealed(t *testing.T) {
	proxy, e := newProxy(t)
	c := dial(t, proxy)
	c.ask("before")
	proxy.BlackHole()
	c.send("held\n")
	c.limit(50 * time.Millisecond)
	if _, err := c.reader.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read through a black hole: %v", err)
	}
	if seen := e.seen(); seen != "before" {
		t.Errorf("the server saw %q", seen)
	}
	proxy.Heal()
	c.limit(patience)
	if line, err := c.reader.ReadString('\n'); err != nil || line != "held\n" {
		t.Errorf("after healing: %q, %v", line, err)
	}
}

func TestCutReachesConnectionsInABlackHole(t *testing.T) {
	proxy, _ := newProxy(t)
	c := dial(t, proxy)
	c.ask("before")
	proxy.BlackHole()
	proxy.Cut() // what a test's end does with a connection that is stuck
	c.cut()
}

func TestSlowDelaysBothDirections(t *testing.T) {
	proxy, _ := newProxy(t)
	c := dial(t, proxy)
	c.ask("before")
	const delay = 30 * time.Millisecond
	proxy.Slow(delay)
	start := time.Now()
	c.ask("slow")
	if took := time.Since(start); took < 2*delay {
		t.Errorf("a round trip took %v, want at least %v", took, 2*delay)
	}
	proxy.Heal()
	c.ask("after")
}

func TestLoseRequestCutsBeforeTheServerSeesIt(t *testing.T) {
	proxy, e := newProxy(t)
	fault := proxy.LoseRequest("COMMIT", 1)
	c, other := dial(t, proxy), dial(t, proxy)
	other.ask("bystander")
	c.ask("begin")
	c.send("Commit\n") // in any case
	c.cut()
	await(t, "strike", fault.Struck())
	if seen := e.seen(); seen != "bystander begin" {
		t.Errorf("the server saw %q", seen)
	}
	other.ask("commit") // it strikes once, and only the connection that it hit
}

func TestLoseAnswerCutsAfterTheServerAnswered(t *testing.T) {
	proxy, e := newProxy(t)
	fault := proxy.LoseAnswer("commit", 1)
	c := dial(t, proxy)
	c.ask("begin")
	c.send("COMMIT\n")
	c.cut()
	await(t, "strike", fault.Struck())
	if seen := e.seen(); seen != "begin COMMIT" {
		t.Errorf("the server saw %q", seen)
	}
	dial(t, proxy).ask("commit")
}

func TestNthOccurrenceIsCountedOverAllConnections(t *testing.T) {
	proxy, _ := newProxy(t)
	fault := proxy.LoseRequest("commit", 3)
	a, b := dial(t, proxy), dial(t, proxy)
	a.ask("commit")
	b.ask("commit")
	a.send("commit\n")
	a.cut()
	await(t, "strike", fault.Struck())
	b.ask("commit")
}

func TestCancelledFaultDoesNotStrike(t *testing.T) {
	proxy, _ := newProxy(t)
	proxy.LoseRequest("commit", 1).Cancel()
	dial(t, proxy).ask("commit")
}

func TestRoundTripsCountsTurnsAndNotPackets(t *testing.T) {
	proxy, _ := newProxy(t)
	c := dial(t, proxy)
	c.ask("warm up")
	before := proxy.RoundTrips()
	c.ask("one")
	c.ask("two")
	if n := proxy.RoundTrips() - before; n != 2 {
		t.Errorf("%d round trips for two questions", n)
	}
}

func TestNothingStaysBehindWhenAClientLeavesInTheMiddle(t *testing.T) {
	e := newEcho(t)
	t.Run("traffic", func(t *testing.T) {
		proxy := faultproxy.New(t, e.listener.Addr().String())
		c := dial(t, proxy)
		// More than all buffers hold, and nobody reads the answers.
		go func() {
			for range 64 {
				if _, err := io.WriteString(c.conn, strings.Repeat("x", 1<<20)+"\n"); err != nil {
					return
				}
			}
		}()
		if _, err := c.reader.ReadByte(); err != nil {
			t.Fatal(err)
		}
		c.conn.Close()
	})
	// goleak has the last word, in TestMain.
}
