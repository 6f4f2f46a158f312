package dlq

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/internal/letter"
)

// kept are the headers of ours that a redriven message carries on. The facts of
// its death are not among them: it begins anew.
var kept = []string{letter.HeaderHistory, letter.HeaderUserID, letter.HeaderExpiration, letter.HeaderDropped, letter.HeaderKey}

// poison are the metadata of a death at Watermill's PoisonQueue.
var poison = []string{poisonReason, poisonTopic, poisonHandler, poisonSubscriber}

// outgoing makes the message of a redrive. Its properties, body and headers are
// those of the letter, with their types; see letter.Outgoing for what is left out.
func outgoing(ctx context.Context, r *row, d decision) *message.Message {
	m := r.Message
	msg := message.NewMessage(m.UUID, r.body)
	headers := maps.Clone(m.Headers)
	for _, name := range poison {
		delete(headers, name)
	}
	for name, v := range headers {
		if text, ok := letter.Text(v); ok && !letter.Ours(name) && name != uuidHeader && !letter.Broker(name) {
			msg.Metadata[name] = text
		}
	}
	for _, name := range kept {
		if text := m.header(name); text != "" {
			msg.Metadata[name] = text
		}
	}
	msg.Metadata[letter.HeaderHistory] = letter.CutHistory(died(r) + msg.Metadata[letter.HeaderHistory])
	if d.key != "" {
		msg.Metadata[letter.HeaderKey] = letter.GivenKey(r.Consumer, d.key)
	}
	msg.Metadata[letter.HeaderRedrive] = strconv.FormatInt(r.ID, 10) + "/" + strconv.FormatInt(d.n, 10)
	if r.amqp {
		maps.Copy(msg.Metadata, m.properties())
		ctx = letter.WithDelivery(ctx, &letter.Delivery{
			Queue: r.Queue, RoutingKey: r.Queue, Properties: m.Properties, Headers: headers, Body: r.body,
		})
	}
	msg.SetContext(ctx)
	return msg
}

// died is the line of history for the death of a letter. What the broker wrote of
// it goes there by letter.Outgoing.
func died(r *row) string {
	if r.Reason != Failed && r.Reason != Poisoned {
		return ""
	}
	return r.CollectedAt.Format(time.RFC3339) + " " + string(r.Reason) + " " + strconv.Quote(r.Queue) + " " + strconv.Itoa(max(1, r.Attempts)) + "\n"
}

// sameQueue groups what is published together, in order.
func sameQueue(items []*item) (queues []string, by map[string][]*item) {
	by = make(map[string][]*item)
	for _, it := range items {
		if _, ok := by[it.row.Queue]; !ok {
			queues = append(queues, it.row.Queue)
		}
		by[it.row.Queue] = append(by[it.row.Queue], it)
	}
	return queues, by
}

// short cuts the error of a publish for the history.
func short(err error) string { return strings.TrimSpace(clean(err.Error(), maxText)) }
