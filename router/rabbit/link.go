package rabbit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/backoff"
)

const (
	// stable: a connection or consumer that lived this long was no failed try, so
	// that the next wait is a short one again. What dies sooner (a message that
	// the client cannot read kills each new connection) keeps backing off.
	stable = 10 * time.Second
	// closeTimeout bounds the good-bye to a broker that may not answer.
	closeTimeout = 5 * time.Second
)

// link keeps one TCP connection alive.
type link struct {
	owner     *Connection
	direction Direction
	ctx       context.Context
	stop      context.CancelFunc

	mu      sync.Mutex
	started bool
	ever    bool // has been connected
	conn    *amqp.Connection
	blocked string // what the broker said; "" when it takes publishes
	lastErr error
	changed chan struct{} // closed and replaced at every change
	done    chan struct{} // closed when run has ended
}

func newLink(c *Connection, d Direction) *link {
	l := &link{owner: c, direction: d, changed: make(chan struct{}), done: make(chan struct{})}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// get returns the live connection; it dials when there is none yet, and waits
// as long as ctx allows. The error then tells why the last dial failed.
func (l *link) get(ctx context.Context) (*amqp.Connection, error) {
	return l.wait(ctx, func() bool { return l.conn != nil })
}

// writable is get, and waits while the broker takes no publishes.
func (l *link) writable(ctx context.Context) (*amqp.Connection, error) {
	return l.wait(ctx, func() bool { return l.conn != nil && l.blocked == "" })
}

// open reports whether a publish can be written now.
func (l *link) open() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn != nil && l.blocked == ""
}

func (l *link) wait(ctx context.Context, ready func() bool) (*amqp.Connection, error) {
	for {
		l.mu.Lock()
		if l.ctx.Err() != nil {
			l.mu.Unlock()
			return nil, ErrClosed
		}
		if !l.started {
			l.started = true
			go l.run()
		}
		if ready() {
			defer l.mu.Unlock()
			return l.conn, nil
		}
		changed, refused := l.changed, l.lastErr
		if l.ever || !lasting(refused) {
			refused = nil
		}
		l.mu.Unlock()
		if refused != nil {
			return nil, refused
		}
		select {
		case <-changed:
		case <-l.ctx.Done():
		case <-ctx.Done():
			return nil, l.whyNot(ctx)
		}
	}
}

func (l *link) whyNot(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.conn != nil && l.blocked != "":
		return fmt.Errorf("broker at %s takes no publishes: %s: %w", l.owner.addr, l.blocked, context.Cause(ctx))
	case l.lastErr != nil:
		return fmt.Errorf("%w: %w", l.lastErr, context.Cause(ctx))
	}
	return fmt.Errorf("connect to %s: %w", l.owner.addr, context.Cause(ctx))
}

func (l *link) run() {
	defer close(l.done)
	waits := backoff.New(l.owner.config.ReconnectMin, l.owner.config.ReconnectMax)
	for attempt := 1; ; attempt++ {
		conn, err := l.owner.dial(l.ctx, l.direction)
		if err == nil {
			since := time.Now()
			l.set(conn, "", nil, 0)
			err = l.watch(conn)
			if time.Since(since) >= stable {
				waits.Reset()
				attempt = 0
			}
		}
		if l.ctx.Err() != nil {
			l.set(nil, "", ErrClosed, 0)
			return
		}
		l.set(nil, "", err, attempt)
		if backoff.Sleep(l.ctx, waits.Next()) != nil {
			l.set(nil, "", ErrClosed, 0)
			return
		}
	}
}

// watch returns when conn has closed.
func (l *link) watch(conn *amqp.Connection) error {
	closes := conn.NotifyClose(make(chan *amqp.Error, 1))
	blocks := conn.NotifyBlocked(make(chan amqp.Blocking, 8))
	for {
		select {
		case <-l.ctx.Done():
			// Sets a deadline on the socket too: a write that hangs on a blocked
			// connection ends.
			_ = conn.CloseDeadline(time.Now().Add(closeTimeout))
			return ErrClosed
		case b, ok := <-blocks:
			switch {
			case !ok:
				blocks = nil
			case b.Active:
				l.set(conn, orText(b.Reason, "blocked"), nil, 0)
			default:
				l.set(conn, "", nil, 0)
			}
		case e := <-closes:
			if e == nil {
				return fmt.Errorf("connection to %s was closed", l.owner.addr)
			}
			return fmt.Errorf("connection to %s: %w", l.owner.addr, unreadable(e))
		}
	}
}

// unreadable names the cause when the client gave up on a frame. The usual one
// is a message that comes back on every new connection.
func unreadable(e *amqp.Error) error {
	for _, known := range []*amqp.Error{amqp.ErrFrameTooLarge, amqp.ErrSyntax} {
		if strings.Contains(e.Reason, known.Reason) {
			return fmt.Errorf("%w: a message at the head of a consumed queue has headers larger than frame_max, or of a type that this client cannot read; move it away with another client", e)
		}
	}
	return e
}

func (l *link) set(conn *amqp.Connection, blocked string, err error, attempt int) {
	l.mu.Lock()
	l.conn, l.blocked, l.lastErr = conn, blocked, err
	l.ever = l.ever || conn != nil
	refused := !l.ever && lasting(err) // nobody waits for that, see wait
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()

	change := StateChange{Direction: l.direction, Err: err, Attempt: attempt}
	log := l.owner.config.Logger.With(watermill.LogFields{"broker": l.owner.addr, "direction": string(l.direction)})
	switch {
	case errors.Is(err, ErrClosed):
		change.State, change.Err = Stopped, nil
	case conn == nil && refused:
		change.State = Disconnected
		log.Error("Not connected to RabbitMQ", err, watermill.LogFields{"attempt": attempt})
	case conn == nil:
		change.State = Disconnected
		log.Error("Not connected to RabbitMQ, trying again", err, watermill.LogFields{"attempt": attempt})
	case blocked != "":
		change.State, change.Err = Blocked, errors.New(blocked)
		log.Error("RabbitMQ takes no publishes", change.Err, nil)
	default:
		change.State = Connected
		log.Info("Connected to RabbitMQ", nil)
	}
	if l.owner.config.OnState != nil {
		l.owner.config.OnState(change)
	}
}

func (l *link) close() {
	l.mu.Lock()
	l.stop()
	started := l.started
	l.mu.Unlock()
	if started {
		<-l.done
	}
}

func orText(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
