package testservices

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// NewVirtualHost creates an empty virtual host on the shared broker and returns its URL; the host goes at the end of the test,
// with its queues and whoever is still connected. It skips the test when there is no broker.
func NewVirtualHost(t testing.TB) string {
	t.Helper()
	server, management, name := RabbitMQ(t), RabbitMQManagement(t), Name(t)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("parse %s: %v", variables[rabbitMQ], err)
	}
	manage(t, management, http.MethodPut, "/api/vhosts/"+name, "")
	t.Cleanup(func() { manage(t, management, http.MethodDelete, "/api/vhosts/"+name, "") })
	manage(t, management, http.MethodPut, "/api/permissions/"+name+"/"+url.PathEscape(u.User.Username()),
		`{"configure":".*","write":".*","read":".*"}`)
	u.Path = "/" + name
	return u.String()
}

// manage calls RabbitMQ's management API.
func manage(t testing.TB, management, method, path, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(management, "/")+path, strings.NewReader(body))
	if err != nil {
		t.Fatalf("use %s: %v", managementVariable, err)
	}
	request.Header.Set("Content-Type", "application/json")
	// No connection stays behind for a test that counts goroutines.
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("%s %s on RabbitMQ's management API: %v (scripts/services status)", method, path, err)
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		answer, _ := io.ReadAll(response.Body)
		t.Fatalf("%s %s on RabbitMQ's management API: %s: %s", method, path, response.Status, answer)
	}
}
