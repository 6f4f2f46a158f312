package rabbit_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// testTLS puts TLS on the port of the broker; plain connections are refused from
// then on.
func testTLS(t *testing.T, server *testservices.Server) {
	ca, other := newAuthority(t), newAuthority(t)
	external(server, "tester")
	withTLS(t, server, ca, false)
	address := server.URL()[strings.LastIndex(server.URL(), "@")+1:]
	login := "amqps://" + strings.TrimPrefix(server.URL(), "amqp://")
	logs := &logRecorder{tb: t}

	try := func(url string, c rabbit.ConnectionConfig) error {
		t.Helper()
		c.Logger, c.ReconnectMax = logs, 200*time.Millisecond
		conn, err := rabbit.NewConnection(url, c)
		if err != nil {
			return err
		}
		defer conn.Close()
		return roundTrip(t, conn)
	}
	trusting := &tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS12}
	with := func(a *authority, name string) *tls.Config {
		c := trusting.Clone()
		c.Certificates = []tls.Certificate{a.issue(t, name)}
		return c
	}
	if err := try(login, rabbit.ConnectionConfig{TLS: trusting}); err != nil {
		t.Errorf("password over TLS: %v", err)
	}
	if err := try(login, rabbit.ConnectionConfig{}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate that nobody vouches for: %v", err)
	}
	if err := try(login, rabbit.ConnectionConfig{TLS: &tls.Config{RootCAs: other.pool(), MinVersion: tls.VersionTLS12}}); err == nil || !strings.Contains(err.Error(), "RootCAs") {
		t.Errorf("another authority's certificate: %v", err)
	}

	withTLS(t, server, ca, true)
	if err := try(login, rabbit.ConnectionConfig{TLS: with(ca, "tester")}); err != nil {
		t.Errorf("client certificate and password: %v", err)
	}
	if err := try(login, rabbit.ConnectionConfig{TLS: trusting}); err == nil || !strings.Contains(err.Error(), "client certificate") {
		t.Errorf("without a client certificate: %v", err)
	}
	if err := try(login, rabbit.ConnectionConfig{TLS: with(other, "tester")}); err == nil || !strings.Contains(err.Error(), "client certificate") {
		t.Errorf("a client certificate of another authority: %v", err)
	}
	if err := try("amqps://"+address, rabbit.ConnectionConfig{TLS: with(ca, "tester"), External: true}); err != nil {
		t.Errorf("login by certificate: %v", err)
	}
	err := try("amqps://"+address, rabbit.ConnectionConfig{TLS: with(ca, "stranger"), External: true})
	if err == nil || !strings.Contains(err.Error(), "login refused") {
		t.Errorf("login by a certificate of no user: %v", err)
	}
	if u, _ := amqp.ParseURI(server.URL()); strings.Contains(logs.text(), u.Password) {
		t.Errorf("the password was logged:\n%s", logs.text())
	}
}

// roundTrip publishes and consumes over both connections.
func roundTrip(t *testing.T, conn *rabbit.Connection) error {
	t.Helper()
	topology := &rabbit.Topology{QueueType: "classic", RetrySteps: []time.Duration{}, DeadLetterQueue: func(string) string { return "" }}
	sub, err := rabbit.NewSubscriber(conn, rabbit.SubscriberConfig{Topology: topology, StartTimeout: 20 * time.Second, CloseTimeout: time.Second})
	if err != nil {
		return err
	}
	defer sub.Close()
	queue := testservices.Name(t)
	msgs, err := sub.Subscribe(context.Background(), queue)
	if err != nil {
		return err
	}
	pub, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{Timeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer pub.Close()
	if err := pub.Publish(queue, message.NewMessage("m", nil)); err != nil {
		return err
	}
	select {
	case m := <-msgs:
		m.Ack()
		return nil
	case <-time.After(patience):
		return context.DeadlineExceeded
	}
}

// withTLS closes the listener of the broker and opens one with TLS on its port.
// The certificates go there in the command, since the broker may see no files of
// ours.
func withTLS(t *testing.T, server *testservices.Server, ca *authority, clients bool) {
	t.Helper()
	cert := ca.issue(t, "localhost")
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	binary := func(der []byte) string { return `base64:decode("` + base64.StdEncoding.EncodeToString(der) + `")` }
	verify := "{verify, verify_none}"
	if clients {
		verify = "{verify, verify_peer}, {fail_if_no_peer_cert, true}"
	}
	server.Ctl("eval", fmt.Sprintf(`
		{ok, _} = application:ensure_all_started(ssl),
		[{listener, _, _, _, IP, Port, _}] = [L || L <- rabbit_networking:active_listeners(), lists:member(element(3, L), [amqp, 'amqp/ssl'])],
		Address = {inet:ntoa(IP), Port, case tuple_size(IP) of 4 -> inet; 8 -> inet6 end},
		Options = [{cert, %s}, {key, {'PrivateKeyInfo', %s}}, {cacerts, [%s]}, %s],
		ok = application:set_env(rabbit, ssl_options, Options),
		ok = rabbit_networking:stop_tcp_listener(Address),
		%%%% The port may not be free at once.
		Start = fun Again(N) -> case rabbit_networking:start_ssl_listener(Address, Options, 2) of
			{error, {could_not_start_listener, _, _, _}} when N > 0 -> timer:sleep(100), Again(N - 1);
			Other -> Other
		end end,
		ok = Start(200).`,
		binary(cert.Certificate[0]), binary(key), binary(ca.cert.Raw), verify))
}

// external lets a user in by the common name of a client certificate, as the
// plugin rabbitmq_auth_mechanism_ssl does.
func external(server *testservices.Server, user string) {
	server.Ctl("add_user", user, "of-no-use")
	server.Ctl("set_permissions", user, ".*", ".*", ".*")
	server.Ctl("eval", `
		[Dir | _] = [D || P <- string:tokens(rabbit_plugins:plugins_dir(), ":"), D <- filelib:wildcard(P ++ "/rabbitmq_auth_mechanism_ssl-*")],
		true = code:add_pathz(Dir ++ "/ebin"),
		ok = application:load(rabbitmq_auth_mechanism_ssl),
		ok = rabbit_registry:register(auth_mechanism, <<"EXTERNAL">>, rabbit_auth_mechanism_ssl),
		ok = application:set_env(rabbit, ssl_cert_login_from, common_name),
		ok = application:set_env(rabbit, auth_mechanisms, ['PLAIN', 'EXTERNAL']).`)
}

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	cert := a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	var err error
	if a.cert, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// issue gives a certificate that is good for a server on this machine and for a
// client.
func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	return a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	})
}

func (a *authority) sign(t *testing.T, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer, a.key = template, key, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
