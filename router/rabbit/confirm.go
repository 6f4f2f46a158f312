package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/backoff"
)

// confirmer writes messages on one channel at a time and waits for what becomes
// of each. It opens a new channel when the old one died.
type confirmer struct {
	conn   *Connection
	config PublisherConfig
	ctx    context.Context
	stop   context.CancelFunc
	calls  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	channel  *pubChannel
	opening  chan struct{}               // non-nil while one is being opened
	openErr  error                       // of the last try
	declared map[string]*amqp.Connection // by exchange, for which connection
}

func newConfirmer(conn *Connection, c PublisherConfig) *confirmer {
	f := &confirmer{conn: conn, config: c, declared: make(map[string]*amqp.Connection)}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// each publishes what has no error yet and fills in the errors. topic is
// declared or looked for first, unless it is "".
func (f *confirmer) each(ctx context.Context, topic string, out []outgoing, errs []error) {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		fail(errs, fmt.Errorf("publisher: %w: %w", ErrNotSent, ErrClosed))
		return
	}
	f.calls.Add(1)
	f.mu.Unlock()
	defer f.calls.Done()

	if topic != "" {
		if err := f.prepare(ctx, topic); err != nil {
			fail(errs, err)
			return
		}
	}
	c := call{f: f, ctx: ctx, out: out, errs: errs, timer: time.NewTimer(f.config.Timeout)}
	defer c.timer.Stop()
	c.run()
}

func fail(errs []error, err error) {
	for i := range errs {
		if errs[i] == nil {
			errs[i] = err
		}
	}
}

// prepare makes sure, once a connection, that the exchange is there: publishing
// to a missing one closes the channel for everybody's messages on it.
func (f *confirmer) prepare(ctx context.Context, topic string) error {
	exchange := f.config.Topics.Exchange(topic)
	if exchange == "" && f.config.Topology == nil {
		return nil
	}
	key := exchange
	if exchange == "" {
		key = "queue " + topic
	}
	ctx, cancel := context.WithTimeout(ctx, f.config.Timeout)
	defer cancel()
	l := f.conn.publish
	conn, err := l.writable(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	f.mu.Lock()
	known := f.declared[key] == conn
	f.mu.Unlock()
	if known {
		return nil
	}
	if f.config.Topology != nil {
		err = f.config.Topology.declare(ctx, l, f.config.Topics, topic, false)
	} else {
		err = l.onChannel(ctx, func(_ *amqp.Connection, ch *amqp.Channel) error {
			return ch.ExchangeDeclarePassive(exchange, orText(f.config.Topics.ExchangeKind, "topic"), true, false, false, false, nil)
		})
	}
	switch {
	case isCode(err, amqp.NotFound):
		return fmt.Errorf("exchange %q: %w", exchange, ErrNoExchange)
	case err != nil:
		return fmt.Errorf("%w: exchange %q: %w", ErrNotSent, exchange, err)
	}
	f.mu.Lock()
	f.declared[key] = conn
	f.mu.Unlock()
	return nil
}

// ready returns the present channel when a message can be written at once.
func (f *confirmer) ready() *pubChannel {
	f.mu.Lock()
	p := f.channel
	f.mu.Unlock()
	if p == nil || p.isDead() || !f.conn.publish.open() {
		return nil
	}
	return p
}

// current returns a channel that is not known to be dead.
func (f *confirmer) current(ctx context.Context) (*pubChannel, error) {
	for {
		f.mu.Lock()
		if p := f.channel; p != nil && !p.isDead() {
			f.mu.Unlock()
			return p, nil
		}
		if f.opening == nil {
			f.opening = make(chan struct{})
			go f.open(f.opening)
		}
		opening := f.opening
		f.mu.Unlock()
		select {
		case <-opening:
			if f.ctx.Err() != nil {
				return nil, ErrClosed
			}
		case <-ctx.Done():
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.openErr != nil {
				return nil, fmt.Errorf("%w: %w", f.openErr, context.Cause(ctx))
			}
			return nil, context.Cause(ctx)
		}
	}
}

// open tries until there is a channel or the publisher is closed.
func (f *confirmer) open(opening chan struct{}) {
	defer close(opening)
	waits := backoff.New(f.conn.config.ReconnectMin, f.conn.config.ReconnectMax)
	for f.ctx.Err() == nil {
		conn, err := f.getConn()
		var p *pubChannel
		if err == nil {
			p, err = newPubChannel(conn, f.config)
		}
		f.mu.Lock()
		f.openErr = err
		if err == nil {
			f.channel, f.opening = p, nil
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		_ = backoff.Sleep(f.ctx, waits.Next())
	}
	f.mu.Lock()
	f.opening = nil
	f.mu.Unlock()
}

// getConn lets a waiting caller see why there is no connection.
func (f *confirmer) getConn() (*amqp.Connection, error) {
	ctx, cancel := context.WithTimeout(f.ctx, time.Second)
	defer cancel()
	return f.conn.publish.get(ctx)
}

func (f *confirmer) close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	f.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), f.config.Timeout)
	defer cancel()
	err := bounded(ctx, func() error { f.calls.Wait(); return nil })
	f.stop()
	f.mu.Lock()
	opening := f.opening
	f.mu.Unlock()
	if opening != nil {
		// A channel that is being opened on a dead connection takes longer than
		// anybody wants to wait: it goes with the connection.
		select {
		case <-opening:
		case <-time.After(closeTimeout):
		}
	}
	f.mu.Lock()
	p := f.channel
	f.mu.Unlock()
	if p != nil {
		p.close()
	}
	if err != nil {
		return errors.New("close publisher: messages are still unconfirmed")
	}
	return nil
}
