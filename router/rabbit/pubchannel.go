package rabbit

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// pubChannel is one AMQP channel in confirm mode.
//
// A returned message is announced before its confirm, on another Go channel.
// That order survives because the channel of returns holds as many as there are
// slots, and a slot is given back only after the returns were looked through:
// so the client never waits to announce one, and none is overlooked.
type pubChannel struct {
	ch       *amqp.Channel
	frameMax int
	maxBody  int
	slots    chan struct{}
	requests chan *request // never full: every request holds a slot
	returns  <-chan amqp.Return
	quit     chan struct{}
	dead     chan struct{} // closed after reason is set
	reason   *amqp.Error   // why the channel closed; nil when we closed it
	idle     chan struct{} // closed when the writer has ended

	mu      sync.Mutex
	flying  []*request // in the order of writing
	strange bool       // a return matched nothing: no confirm is trusted
}

// request is one message on its way.
type request struct {
	out     *outgoing
	taken   atomic.Bool   // by the writer, or back by the caller
	written chan struct{} // closed when confirm or err is set
	confirm *amqp.DeferredConfirmation
	err     error // not written
	ret     *amqp.Return
	unsure  bool // a return may have been for this one
}

func newPubChannel(conn *amqp.Connection, c PublisherConfig) (*pubChannel, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open channel: %w", err)
	}
	closes := ch.NotifyClose(make(chan *amqp.Error, 1))
	p := &pubChannel{
		ch: ch, frameMax: conn.Config.FrameSize, maxBody: c.MaxBody,
		slots: make(chan struct{}, c.Window), requests: make(chan *request, c.Window),
		returns: ch.NotifyReturn(make(chan amqp.Return, c.Window)),
		quit:    make(chan struct{}), dead: make(chan struct{}), idle: make(chan struct{}),
	}
	if p.maxBody == 0 {
		p.maxBody = maxBodyOld
		if versionOf(conn).major >= 4 {
			p.maxBody = maxBodyNew
		}
	}
	if err := ch.Confirm(false); err != nil {
		_ = ch.Close()
		return nil, fmt.Errorf("turn on confirms: %w", err)
	}
	go func() {
		p.reason = <-closes
		close(p.dead)
	}()
	go p.write()
	return p, nil
}

// write is the only goroutine that publishes, so that a write that hangs, on a
// connection the broker has stopped reading from, holds up nobody's deadline.
// It also closes the channel: a close must not come between the frames of a
// message.
func (p *pubChannel) write() {
	defer close(p.idle)
	for {
		select {
		case r := <-p.requests:
			if r.taken.CompareAndSwap(false, true) {
				p.writeOne(r)
			} else {
				<-p.slots // taken back by its caller
			}
		case <-p.dead:
			return
		case <-p.quit:
			_ = p.ch.Close()
			return
		}
	}
}

func (p *pubChannel) writeOne(r *request) {
	defer close(r.written)
	if p.ch.IsClosed() {
		r.err = errRetry
		return
	}
	p.mu.Lock()
	p.flying = append(p.flying, r)
	p.mu.Unlock()
	r.confirm, r.err = p.ch.PublishWithDeferredConfirm(r.out.exchange, r.out.key, !r.out.optional, false, r.out.Publishing)
	if r.err != nil {
		p.mu.Lock()
		p.forget(r)
		p.mu.Unlock()
		// Some of it may have been written: nobody knows.
		r.err = fmt.Errorf("%w: %w", ErrUnknown, r.err)
	}
}

// notWritten marks a request that the writer, which has ended, left behind.
func (p *pubChannel) notWritten(r *request) {
	select {
	case <-r.written:
	default:
		r.err = errRetry
		close(r.written)
	}
}

// outcome tells what became of a request whose confirmation is done, and frees
// its slot.
func (p *pubChannel) outcome(r *request) error {
	defer func() { <-p.slots }()
	if r.err != nil {
		return r.err
	}
	p.mu.Lock()
	p.sortReturns()
	p.forget(r)
	ret, unsure := r.ret, r.unsure || p.strange
	p.mu.Unlock()

	switch {
	case ret != nil:
		return fmt.Errorf("exchange %q, routing key %q: %w (%s)", r.out.exchange, r.out.key, ErrUnroutable, ret.ReplyText)
	case unsure:
		return fmt.Errorf("%w: a message like it was returned", ErrUnknown)
	case r.confirm.Acked():
		return nil
	case !p.isDead():
		return fmt.Errorf("exchange %q, routing key %q: %w", r.out.exchange, r.out.key, ErrNacked)
	}
	<-p.dead // the client says why before it gives up on confirms
	switch {
	case p.reason == nil:
		return fmt.Errorf("%w: %w", ErrUnknown, ErrClosed)
	case p.reason.Code == amqp.NotFound && r.out.exchange != "" && isQuoted(p.reason.Reason, r.out.exchange):
		return fmt.Errorf("exchange %q: %w: %w", r.out.exchange, ErrNoExchange, p.reason)
	}
	return fmt.Errorf("%w: %w", ErrUnknown, p.reason)
}

// abandon is for a caller that waits no longer. True when the writer had not
// begun with the message and now never will; otherwise its slot is freed when
// its fate is known.
func (p *pubChannel) abandon(r *request) (unsent bool) {
	if r.taken.CompareAndSwap(false, true) {
		return true
	}
	go func() {
		<-r.written
		if r.err == nil {
			<-r.confirm.Done()
		}
		_ = p.outcome(r)
	}()
	return false
}

func (p *pubChannel) forget(r *request) {
	if i := slices.Index(p.flying, r); i >= 0 {
		p.flying = slices.Delete(p.flying, i, i+1)
	}
}

func (p *pubChannel) isDead() bool { return p.ch.IsClosed() }

func (p *pubChannel) close() {
	close(p.quit)
	select {
	case <-p.idle:
	case <-time.After(closeTimeout):
	}
}
