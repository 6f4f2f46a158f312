package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/router/rabbit"
)

// batch is how many orders the producer sends together.
const batch = 25

// resendAfter is the pause after a message that was not confirmed.
const resendAfter = 200 * time.Millisecond

// produce publishes orders from s.From on, as far as each line of in (a number)
// allows. It keeps no record of what it sent: one that was killed begins again
// where its parent last heard of it, and so sends orders again that the broker
// has already.
func produce(ctx context.Context, in io.Reader, s settings, w *watch) error {
	pub, closePublisher, err := newPublisher(s)
	if err != nil {
		return err
	}
	defer closePublisher() //nolint:contextcheck // it takes none

	next := s.From
	for lines := bufio.NewScanner(in); lines.Scan(); {
		end, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		if err != nil {
			return fmt.Errorf("orders to send: %w", err)
		}
		// One copy comes at once, another one at the end, when the first one was
		// handled long ago.
		var late []*message.Message
		for ; next < end; next = min(next+batch, end) {
			var msgs []*message.Message
			for id := next; id < min(next+batch, end); id++ {
				o := newOrder(id, s.Messages, s.Poison)
				msg, err := newMessage(o)
				if err != nil {
					return err
				}
				msgs = append(msgs, msg)
				if o.copies() == 1 {
					continue
				}
				again, err := newMessage(o)
				if err != nil {
					return err
				}
				if id%2 == 0 {
					msgs = append(msgs, again)
				} else {
					late = append(late, again)
				}
			}
			if err := send(ctx, pub, s.Topic, msgs, w); err != nil {
				return err
			}
		}
		if err := send(ctx, pub, s.Topic, late, w); err != nil {
			return err
		}
		w.tell(fmt.Sprint(lineSent, " ", end))
	}
	return nil
}

func newPublisher(s settings) (*rabbit.Publisher, func(), error) {
	conn, err := rabbit.NewConnection(s.Broker, rabbit.ConnectionConfig{ReconnectMax: time.Second})
	if err != nil {
		return nil, nil, err
	}
	pub, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{Topics: rabbit.PubSub(""), Timeout: 5 * time.Second})
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return pub, func() { _, _ = pub.Close(), conn.Close() }, nil
}

// spared: one of so many orders is left out of every sample, so that it comes
// again only at the end, when nobody but the old table may know it.
const spared = 7

// resend publishes one more copy of some orders that were sent before.
func resend(ctx context.Context, s settings, w *watch) error {
	pub, closePublisher, err := newPublisher(s)
	if err != nil {
		return err
	}
	defer closePublisher() //nolint:contextcheck // it takes none
	var msgs []*message.Message
	for id := s.From; id < s.To; id += s.Every {
		if s.Every > 1 && id%spared == 0 {
			continue
		}
		msg, err := newMessage(newOrder(id, s.Messages, s.Poison))
		if err != nil {
			return err
		}
		msgs = append(msgs, msg)
	}
	for part := range slices.Chunk(msgs, batch) {
		if err := send(ctx, pub, s.Topic, part, w); err != nil {
			return err
		}
	}
	return nil
}

// newMessage makes a message of its own for each copy: only the event_id says
// that two of them are the same order.
func newMessage(o order) (*message.Message, error) {
	payload, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	msg := message.NewMessage(watermill.NewUUID(), payload)
	msg.Metadata.Set("event_id", o.eventID())
	return msg, nil
}

// send publishes until every message is confirmed. What was not confirmed may be
// in the queues all the same; sending it again is what the inbox is for.
func send(ctx context.Context, pub *rabbit.Publisher, topic string, msgs []*message.Message, w *watch) error {
	for len(msgs) > 0 {
		var left []*message.Message
		var why error
		for i, err := range pub.PublishEach(ctx, topic, msgs...) {
			if err != nil {
				left, why = append(left, msgs[i]), err
				continue
			}
			w.tell(linePublished)
		}
		if msgs = left; why == nil {
			continue
		}
		w.log.Warn("sending again", "messages", len(left), "err", why)
		select {
		case <-time.After(resendAfter):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
