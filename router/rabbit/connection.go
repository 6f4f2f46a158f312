package rabbit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	amqp "github.com/rabbitmq/amqp091-go"
)

// ConnectionConfig configures a Connection. The zero value works.
type ConnectionConfig struct {
	// Name shows in the broker's list of connections, followed by the direction.
	// Defaults to the name of the binary.
	Name string
	// TLS is used for amqps:// URLs, client certificates included. Parameters of
	// the URL (certfile, keyfile, cacertfile, server_name_indication) are ignored
	// when it is set. Defaults to the system's authorities and the URL's host.
	TLS *tls.Config
	// External logs in by the client certificate (SASL EXTERNAL) instead of the
	// URL's user and password. Needs amqps://. Defaults to false.
	External bool
	// Heartbeat is the interval offered to the broker; a heartbeat in the URL wins.
	// A dead peer is noticed after one and a half of it. Defaults to 10 s.
	Heartbeat time.Duration
	// DialTimeout bounds one try: TCP, TLS and AMQP handshakes. Defaults to 15 s.
	DialTimeout time.Duration
	// ReconnectMin and ReconnectMax bound the waits between dials: exponential,
	// full jitter, without limit in number. Default to 100 ms and 30 s.
	ReconnectMin, ReconnectMax time.Duration
	// OnState sees every change of either connection, in order per direction. It
	// must not block. Defaults to none.
	OnState func(StateChange)
	// Logger takes the same changes. Defaults to silent.
	Logger watermill.LoggerAdapter
}

// Connection is what subscribers and publishers share: one TCP connection for
// consuming and one for publishing, each dialled when it is first needed and
// again, without limit, when it breaks. It is safe for concurrent use.
//
// amqp091-go's own recovery is not used: it sends delivery tags of the dead
// channel on the new one, where they settle other messages.
type Connection struct {
	config           ConnectionConfig
	url, addr        string
	consume, publish *link
	differing        sync.Map // names of queues that were said to exist with other arguments
}

// NewConnection checks url and c; it does not dial. Close it when subscribers
// and publishers are closed.
//
// No error or log line of this package repeats user or password of the URL.
func NewConnection(url string, c ConnectionConfig) (*Connection, error) {
	var errs []error
	addr, err := address(url)
	if err == nil {
		_, parseErr := amqp.ParseURI(url)
		if parseErr != nil {
			err = errURLParams
		}
	}
	errs = append(errs, err)
	uri, _ := amqp.ParseURI(url)
	if c.External && err == nil && uri.Scheme != "amqps" {
		errs = append(errs, errors.New("External needs an amqps:// URL: the client certificate is the login"))
	}
	errs = append(errs,
		notNegative("Heartbeat", c.Heartbeat), notNegative("DialTimeout", c.DialTimeout),
		notNegative("ReconnectMin", c.ReconnectMin), notNegative("ReconnectMax", c.ReconnectMax))
	if c.Name == "" {
		c.Name = filepath.Base(os.Args[0])
	}
	if len(c.Name) > 200 {
		errs = append(errs, fmt.Errorf("Name has %d bytes: at most 200 fit", len(c.Name)))
	}
	orDefault(&c.Heartbeat, 10*time.Second)
	orDefault(&c.DialTimeout, 15*time.Second)
	orDefault(&c.ReconnectMin, 100*time.Millisecond)
	orDefault(&c.ReconnectMax, max(30*time.Second, c.ReconnectMin))
	if c.ReconnectMin > c.ReconnectMax {
		errs = append(errs, fmt.Errorf("ReconnectMin %s is longer than ReconnectMax %s", c.ReconnectMin, c.ReconnectMax))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("rabbit connection: %w", err)
	}
	if c.Logger == nil {
		c.Logger = watermill.NopLogger{}
	}
	conn := &Connection{config: c, url: url, addr: addr}
	conn.consume = newLink(conn, Consume)
	conn.publish = newLink(conn, Publish)
	return conn, nil
}

// Address is host:port/vhost, without user and password.
func (c *Connection) Address() string { return c.addr }

// vhost is the name of the virtual host.
func (c *Connection) vhost() string {
	uri, err := amqp.ParseURI(c.url)
	if err != nil {
		return "/" // cannot be: NewConnection has read it
	}
	return uri.Vhost
}

// Close closes both connections. What is not settled goes back to its queue.
// It returns within a few seconds even when the broker does not answer.
func (c *Connection) Close() error {
	c.consume.close()
	c.publish.close()
	return nil
}

// dial makes one connection. The config is built anew each time: the client
// wipes the credentials after a login.
func (c *Connection) dial(ctx context.Context, d Direction) (*amqp.Connection, error) {
	props := amqp.NewConnectionProperties()
	props.SetClientConnectionName(c.config.Name + " (" + string(d) + ")")
	release := func() bool { return true }
	config := amqp.Config{
		Heartbeat: c.config.Heartbeat, Locale: "en_US", Properties: props,
		Dial: func(network, addr string) (net.Conn, error) {
			dialer := net.Dialer{Timeout: c.config.DialTimeout}
			conn, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			// The client lifts it after the handshake.
			if err := conn.SetDeadline(time.Now().Add(c.config.DialTimeout)); err != nil {
				_ = conn.Close()
				return nil, err
			}
			release = context.AfterFunc(ctx, func() { _ = conn.Close() })
			return conn, nil
		},
	}
	if c.config.TLS != nil {
		config.TLSClientConfig = c.config.TLS.Clone()
	}
	if c.config.External {
		config.SASL = []amqp.Authentication{&amqp.ExternalAuth{}}
	}
	conn, err := amqp.DialConfig(c.url, config)
	release() // from here on the link closes it, in good order
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.addr, hint(err))
	}
	return conn, nil
}

var (
	errRefused     = errors.New("login refused")
	errCertificate = errors.New("certificate refused")
)

// lasting tells whether what a dial failed on is of the configuration, and heals
// by itself too rarely to be waited for at the start.
func lasting(err error) bool { return errors.Is(err, errRefused) || errors.Is(err, errCertificate) }

// hint adds the likely fix to what the handshake said.
func hint(err error) error {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("%w: %w: check the broker's certificate, and ConnectionConfig.TLS.RootCAs or cacertfile in the URL", errCertificate, err)
	}
	// The alert is only told in words: with TLS 1.3 it comes when the handshake is
	// over, to the client's reader.
	if strings.Contains(err.Error(), "remote error: tls: ") {
		return fmt.Errorf("%w: %w: the broker refuses the TLS handshake: check the client certificate in ConnectionConfig.TLS", errCertificate, err)
	}
	ae, ok := errors.AsType[*amqp.Error](err)
	if !ok {
		return err
	}
	switch ae.Code {
	case amqp.AccessRefused:
		return fmt.Errorf("%w: %w: check user and password, and whether the broker lets that user in from this host", errRefused, err)
	case amqp.NotAllowed:
		return fmt.Errorf("%w: %w: check that the virtual host exists and the user may use it", errRefused, err)
	}
	return err
}

func notNegative(field string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%s is %s: must not be negative", field, d)
	}
	return nil
}

func orDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}
