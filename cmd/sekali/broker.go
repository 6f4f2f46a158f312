package main

import (
	"context"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/report"
	"github.com/sekali-mq/sekali/cmd/sekali/internal/source"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// broker is the RabbitMQ that the operator named.
type broker struct {
	from string
	url  string
	conn *rabbit.Connection
}

func (a *app) brokerURL() (url, from string) {
	return a.either("--amqp", a.flags.amqp, "SEKALI_AMQP_URL")
}

func (a *app) hasBroker() bool {
	url, _ := a.brokerURL()
	return url != ""
}

// broker connects; the error says what is wrong with the URL or the server.
func (a *app) broker(ctx context.Context) (*broker, error) {
	url, from := a.brokerURL()
	if url == "" {
		return nil, &usageError{text: errNoBroker.Error()}
	}
	a.secrets.Add(url)
	var logger watermill.LoggerAdapter = watermill.NopLogger{}
	if a.flags.verbose {
		logger = watermill.NewSlogLogger(a.logger())
	}
	conn, err := rabbit.NewConnection(url, rabbit.ConnectionConfig{
		Name: "sekali", DialTimeout: a.flags.timeout, ReconnectMax: 5 * time.Second, Logger: logger,
		OnState: a.stateSayer(),
	})
	if err != nil {
		return nil, &usageError{text: from + ": " + source.URLFault(err)}
	}
	b := &broker{from: from, url: url, conn: conn}
	a.later(conn)
	// A first answer, so that what is wrong is said at once: the connection itself
	// would try again and again.
	if err := b.inspect(ctx, a.flags.timeout, nil); err != nil {
		return nil, err
	}
	return b, nil
}

// stateSayer tells an operator why nothing goes on, once a change.
func (a *app) stateSayer() func(rabbit.StateChange) {
	var mu sync.Mutex
	away := make(map[rabbit.Direction]bool)
	return func(s rabbit.StateChange) {
		mu.Lock()
		defer mu.Unlock()
		switch s.State {
		case rabbit.Blocked:
			a.sayf("sekali: RabbitMQ takes no messages at the moment (%s): waiting", report.Printable(s.Err.Error()))
		case rabbit.Disconnected:
			if !away[s.Direction] {
				a.sayf("sekali: the connection to RabbitMQ broke: trying again until it is there")
			}
			away[s.Direction] = true
		case rabbit.Connected:
			if away[s.Direction] {
				a.sayf("sekali: connected to RabbitMQ again")
			}
			away[s.Direction] = false
		case rabbit.Stopped:
		}
	}
}

func (b *broker) explain(err error) error {
	return source.ExplainBroker("RabbitMQ at "+b.conn.Address()+" ("+b.from+")", err)
}
