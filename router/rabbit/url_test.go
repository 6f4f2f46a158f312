package rabbit_test

import (
	"strings"
	"testing"

	"github.com/sekali-mq/sekali/router/rabbit"
)

func TestNoErrorRepeatsCredentials(t *testing.T) {
	for _, url := range []string{
		"amqp://us3r:p4ss w0rd@host/", "amqp://us3r:p4ss/w0rd@host/", "amqp://us3r:12/p4ss@host", "amqp://us3r:p4ss#w0rd@host/",
		"amqp://us3r:p4ss%zzw0rd@host/", "amqp://us3r:p4ss[w0rd@host/", "http://us3r:p4ss@host/", "us3r:p4ss@host", "",
		"amqp://us3r:p4ss@host/?heartbeat=w0rd", "amqp://us3r:p4ss@host:99999999999/", "amqp://us3r:p4ss?w0rd@host/", "amqp://us3r:p4ss@host:po/",
	} {
		conn, err := rabbit.NewConnection(url, rabbit.ConnectionConfig{})
		if err == nil {
			t.Errorf("%q was accepted", url)
			_ = conn.Close()
			continue
		}
		for _, secret := range []string{"us3r", "p4ss", "w0rd"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q: the error repeats %q: %v", url, secret, err)
			}
		}
	}
	conn, err := rabbit.NewConnection("amqp://us3r:p%2F4ss@host/shop", rabbit.ConnectionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if got := conn.Address(); got != "host:5672/shop" {
		t.Errorf("address %q", got)
	}
	_, err = rabbit.NewConnection("amqp://host/", rabbit.ConnectionConfig{External: true, Heartbeat: -1, ReconnectMin: 5, ReconnectMax: 2, Name: strings.Repeat("n", 300)})
	for _, field := range []string{"External", "Heartbeat", "ReconnectMin", "Name"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named in: %v", field, err)
		}
	}
}
