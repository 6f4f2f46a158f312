package rabbit

import (
	"errors"
	"net"
	"net/url"
	"strings"
)

var (
	errURLSyntax = errors.New("URL cannot be read as amqp://user:password@host:port/vhost: " +
		"characters like / ? # @ : % in user or password must be percent-encoded (net/url.UserPassword does it)")
	errURLScheme = errors.New("URL must begin with amqp:// or amqps://")
	errURLParams = errors.New("URL has a query parameter that cannot be read: heartbeat and channel_max take 0 to 65535, connection_timeout milliseconds")
)

// address checks an AMQP URL and returns what may be shown of it. No error
// repeats any part of the URL: where parsing fails, nobody knows which part was
// the password. (net/url quotes the whole input, or the broken part.)
func address(raw string) (string, error) {
	if strings.ContainsAny(raw, " \t\r\n") {
		return "", errURLSyntax
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" {
		return "", errURLSyntax
	}
	if u.Scheme != "amqp" && u.Scheme != "amqps" {
		return "", errURLScheme
	}
	if strings.Contains(u.Path, "@") || strings.Contains(u.RawQuery, "@") || strings.Contains(u.Fragment, "@") {
		return "", errURLSyntax // the authority ended inside the password
	}
	host, port := u.Hostname(), u.Port()
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = map[string]string{"amqp": "5672", "amqps": "5671"}[u.Scheme]
	}
	vhost := strings.TrimPrefix(u.Path, "/")
	return net.JoinHostPort(host, port) + "/" + vhost, nil
}
