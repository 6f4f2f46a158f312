package source

import (
	"errors"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/router/rabbit"
)

// ExplainBroker makes the sentence for an error of the broker that who names. An
// error that is explained already is left as it is.
func ExplainBroker(who string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*ExplainedError](err); ok {
		return err
	}
	return &ExplainedError{text: who + ": " + brokerWhy(err), err: err}
}

func brokerWhy(err error) string {
	switch {
	case errors.Is(err, amqp.ErrVhost):
		return "the virtual host does not exist, or this user may not use it: check the end of the URL, and rabbitmqctl list_permissions"
	case errors.Is(err, amqp.ErrCredentials) || errors.Is(err, amqp.ErrSASL):
		return login
	case errors.Is(err, amqp.ErrClosed): // what the client says of a connection that it found closed when it wanted to send
		return hungUp
	}
	if e, ok := errors.AsType[*amqp.Error](err); ok {
		switch e.Code {
		case amqp.AccessRefused:
			return "no permission (" + e.Reason + "): rabbitmqctl set_permissions for this user, or use another one"
		case amqp.NotAllowed:
			return "the virtual host does not exist, or this user may not use it: check the end of the URL, and rabbitmqctl list_permissions"
		case amqp.FrameError: // the client keeps but the text of what broke the handshake
			if strings.Contains(e.Reason, "timeout") {
				return noAnswer
			}
			return hungUp
		}
	}
	if errors.Is(err, rabbit.ErrNoQueue) {
		return plain(err)
	}
	if text := network(err); text != "" {
		return text
	}
	return plain(err)
}

// URLFault says what is wrong with a broker's URL.
func URLFault(err error) string { return strings.TrimPrefix(err.Error(), "rabbit connection: ") }
