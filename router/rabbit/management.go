package rabbit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// management asks the broker's HTTP API, for reading only.
type management struct {
	client  *http.Client
	base    string // without user and password
	user    *url.Userinfo
	vhost   string
	version serverVersion
}

var (
	errNotThere      = errors.New("does not exist")
	errManagementURL = errors.New("Management must be a URL like http://user:password@host:15672; characters like / ? # @ : % in user or password must be percent-encoded")
)

// newManagement repeats no part of the URL in its errors.
func newManagement(raw string, conn *Connection, client *http.Client) (*management, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User == nil {
		return nil, errManagementURL
	}
	m := &management{client: client, user: u.User, vhost: conn.vhost()}
	u.User = nil
	m.base = strings.TrimSuffix(u.String(), "/")
	if m.client == nil {
		m.client = http.DefaultClient
	}
	return m, nil
}

// managementTimeout bounds one question.
const managementTimeout = 10 * time.Second

func (m *management) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, managementTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.base+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("ask the management API: %w", err)
	}
	password, _ := m.user.Password()
	request.SetBasicAuth(m.user.Username(), password)
	response, err := m.client.Do(request)
	if err != nil {
		return fmt.Errorf("ask the management API: %w", err)
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return errNotThere
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("management API at %s: %s: check user and password, and give the user the tag management and access to virtual host %q", m.base, response.Status, m.vhost)
	default:
		return fmt.Errorf("management API at %s: %s", m.base, response.Status)
	}
	const most = 8 << 20
	if err := json.NewDecoder(io.LimitReader(response.Body, most)).Decode(into); err != nil {
		return fmt.Errorf("answer of the management API at %s: %w", m.base, err)
	}
	return nil
}

func (m *management) queue(ctx context.Context, name string) (queueInfo, error) {
	q := queueInfo{vhost: m.vhost}
	if m.version == (serverVersion{}) {
		var overview struct {
			Version string `json:"rabbitmq_version"`
		}
		if err := m.get(ctx, "/api/overview", &overview); err != nil {
			return q, err
		}
		m.version = parseVersion(overview.Version)
	}
	err := m.get(ctx, "/api/queues/"+url.PathEscape(m.vhost)+"/"+url.PathEscape(name), &q)
	if errors.Is(err, errNotThere) {
		return q, fmt.Errorf("management API at %s does not know queue %q of virtual host %q: is it that of another broker?", m.base, name, m.vhost)
	}
	q.server = m.version
	return q, err
}

// exchange gives the kind of an exchange and the keys of its bindings;
// errNotThere when there is no such exchange.
func (m *management) exchange(ctx context.Context, name string) (kind string, keys []string, err error) {
	path := "/api/exchanges/" + url.PathEscape(m.vhost) + "/" + url.PathEscape(name)
	var exchange struct {
		Type string `json:"type"`
	}
	if err := m.get(ctx, path, &exchange); err != nil {
		return "", nil, err
	}
	var bindings []struct {
		Key string `json:"routing_key"`
	}
	if err := m.get(ctx, path+"/bindings/source", &bindings); err != nil {
		return "", nil, err
	}
	for _, b := range bindings {
		keys = append(keys, b.Key)
	}
	return exchange.Type, keys, nil
}
