package rabbit

import (
	"context"
	"errors"
	"maps"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/letter"
)

const (
	// shortReason is what is left of a letter's reason when space is short.
	shortReason = 200
	// smallHeaders fit the smallest frame that AMQP allows to negotiate, twice over;
	// what is refused as too large then is not so for its headers.
	smallHeaders = 8 << 10
)

// lighten publishes a retry or letter again whose headers do not fit a frame.
// The message came through this broker, so it is what we add that does not fit;
// kept as it is it would be published in vain for ever. First our own texts are
// cut, then the largest headers of others are left out, one by one, and named in
// sekali-dropped.
func (p *Publisher) lighten(ctx context.Context, o outgoing, err error) error {
	headers := maps.Clone(o.Headers)
	for cut := false; errors.Is(err, ErrTooLarge) && o.headerSize > smallHeaders; cut = true {
		if !cut {
			if reason, ok := headers[letter.HeaderReason].(string); ok && len(reason) > shortReason {
				headers[letter.HeaderReason] = strings.ToValidUTF8(reason[:shortReason], "")
			}
			delete(headers, letter.HeaderHistory)
		} else if !dropLargest(headers) {
			return err
		}
		optional := o.optional
		o.Headers = headers
		var checked error
		if o, checked = check(o.exchange, o.key, o.Publishing); checked != nil {
			return checked
		}
		o.optional = optional
		errs := make([]error, 1)
		p.wire.each(ctx, "", []outgoing{o}, errs)
		err = errs[0]
	}
	return err
}

// dropLargest leaves out the largest header that is not one of ours.
func dropLargest(headers amqp.Table) bool {
	name, most := "", -1
	for h, v := range headers {
		if _, n, err := wire(amqp.Table{h: v}); err == nil && n > most && !letter.Ours(h) {
			name, most = h, n
		}
	}
	if most < 0 {
		return false
	}
	delete(headers, name)
	dropped, _ := headers[letter.HeaderDropped].(string)
	headers[letter.HeaderDropped] = strings.TrimPrefix(dropped+" "+name, " ")
	return true
}
