package rabbit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errRetry: nothing was written, because the channel had died. It does not leave
// this package.
var errRetry = errors.New("the channel died before anything was written")

// call is one PublishEach on its way.
type call struct {
	f     *confirmer
	ctx   context.Context
	out   []outgoing
	errs  []error
	timer *time.Timer
	mine  []flight // handed to the writer, oldest first
	again []int    // to be tried on the next channel
}

type flight struct {
	index   int
	channel *pubChannel
	request *request
	since   time.Time
}

func (c *call) run() {
	todo := make([]int, 0, len(c.out))
	for i := range c.out {
		if c.errs[i] == nil {
			todo = append(todo, i)
		}
	}
	for giveUp := time.Now().Add(c.f.config.Timeout); len(todo) > 0; {
		for _, i := range todo {
			if err := c.send(i); err != nil {
				c.errs[i] = err
			}
		}
		for len(c.mine) > 0 {
			c.finish()
		}
		todo, c.again = c.again, nil
		if time.Now().After(giveUp) {
			for _, i := range todo {
				c.errs[i] = fmt.Errorf("%w: %w", ErrNotSent, errRetry)
			}
			return
		}
	}
}

// send hands one message to the writer, waiting for a channel and a place in
// the window.
func (c *call) send(i int) error {
	for {
		p, err := c.channel()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotSent, err)
		}
		if err := c.out[i].fits(p.frameMax, p.maxBody); err != nil {
			return err
		}
		err = c.slot(p)
		if errors.Is(err, errRetry) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%w: %d messages are unconfirmed: %w", ErrNotSent, cap(p.slots), err)
		}
		r := &request{out: &c.out[i], written: make(chan struct{})}
		p.requests <- r // as many places as slots
		c.mine = append(c.mine, flight{i, p, r, time.Now()})
		return nil
	}
}

func (c *call) channel() (*pubChannel, error) {
	if p := c.f.ready(); p != nil {
		return p, nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.f.config.Timeout)
	defer cancel()
	if _, err := c.f.conn.publish.writable(ctx); err != nil {
		return nil, err
	}
	return c.f.current(ctx)
}

// slot takes a place in the window. While it is full this finishes own
// messages: waiting for a place that only this call can free would never end.
func (c *call) slot(p *pubChannel) error {
	for {
		select {
		case p.slots <- struct{}{}:
			return nil
		default:
		}
		if len(c.mine) == 0 {
			break
		}
		c.finish()
	}
	c.timer.Reset(c.f.config.Timeout)
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-p.dead:
		return errRetry
	case <-c.timer.C:
		return context.DeadlineExceeded
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

// finish waits for the oldest own message and notes its result.
func (c *call) finish() {
	fl := c.mine[0]
	c.mine = c.mine[1:]
	err := c.await(fl)
	if err != nil {
		if fl.channel.abandon(fl.request) {
			err = fmt.Errorf("%w: connection to %s takes nothing: %w", ErrNotSent, c.f.conn.addr, err)
		} else {
			err = fmt.Errorf("%w: %w", ErrUnknown, err)
		}
	} else {
		err = fl.channel.outcome(fl.request)
	}
	if errors.Is(err, errRetry) {
		c.again = append(c.again, fl.index)
		return
	}
	c.errs[fl.index] = err
}

// await returns nil when the fate of the message is known.
func (c *call) await(fl flight) error {
	r := fl.request
	c.timer.Reset(max(time.Until(fl.since.Add(c.f.config.Timeout)), time.Millisecond))
	select {
	case <-r.written:
	case <-fl.channel.idle:
		fl.channel.notWritten(r)
	case <-c.timer.C:
		return context.DeadlineExceeded
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
	if r.err != nil {
		return nil //nolint:nilerr // its fate is known; outcome tells it
	}
	select {
	case <-r.confirm.Done():
		return nil
	case <-c.timer.C:
		return context.DeadlineExceeded
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}
