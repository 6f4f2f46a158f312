package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// broker is a private RabbitMQ of scripts/services.
type broker struct {
	script, instance string
	url, management  string
}

func startBroker(ctx context.Context) (*broker, error) {
	script, err := findScript()
	if err != nil {
		return nil, err
	}
	pid := strconv.Itoa(os.Getpid())
	b := &broker{script: script, instance: "soak" + pid}
	// Should this process die, "scripts/services down" ends the broker all the same.
	if _, err := b.services(ctx, "up", "--owner", pid, "rabbitmq"); err != nil {
		return nil, err
	}
	env, err := b.services(ctx, "env", "rabbitmq")
	if err != nil {
		b.down(context.WithoutCancel(ctx))
		return nil, err
	}
	for line := range strings.Lines(env) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		switch value = strings.Trim(value, "'"); name {
		case "SEKALI_RABBITMQ_URL":
			b.url = value
		case "SEKALI_RABBITMQ_MANAGEMENT_URL":
			b.management = value
		}
	}
	return b, nil
}

// findScript looks in the present folder and above it.
func findScript() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		path := filepath.Join(dir, "scripts", "services")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("scripts/services is not in this folder nor above: run in the checkout")
		}
		dir = filepath.Dir(dir)
	}
}

func (b *broker) services(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, b.script, append([]string{"--instance", b.instance}, args...)...)
	var out, diagnostics bytes.Buffer
	command.Stdout, command.Stderr = &out, &diagnostics
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("scripts/services %s: %w: %s", strings.Join(args, " "), err, diagnostics.String())
	}
	return out.String(), nil
}

// down ends the broker and deletes its data.
func (b *broker) down(ctx context.Context) { _, _ = b.services(ctx, "down") }

// crash kills the broker and starts it on its data.
func (b *broker) crash(ctx context.Context) error {
	if _, err := b.services(ctx, "kill", "rabbitmq"); err != nil {
		return err
	}
	_, err := b.services(ctx, "start", "rabbitmq")
	return err
}

// cut has the broker close the connections whose names begin so, and returns how
// many it closed. A connection is listed a moment after it was made.
func (b *broker) cut(ctx context.Context, name string) (int, error) {
	var list []struct {
		Name       string `json:"name"`
		Properties struct {
			Name string `json:"connection_name"`
		} `json:"client_properties"`
	}
	if err := b.manage(ctx, http.MethodGet, "/api/connections", &list); err != nil {
		return 0, err
	}
	closed := 0
	for _, c := range list {
		if !strings.HasPrefix(c.Properties.Name, name) {
			continue
		}
		if err := b.manage(ctx, http.MethodDelete, "/api/connections/"+url.PathEscape(c.Name), nil); err != nil {
			return closed, err
		}
		closed++
	}
	return closed, nil
}

func (b *broker) manage(ctx context.Context, method, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, b.management+path, http.NoBody)
	if err != nil {
		return err
	}
	request.Close = true // no connection stays behind where goroutines are counted
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || into == nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("management API: %s", response.Status)
	}
	return json.Unmarshal(body, into)
}

// on runs f on a channel of a plain connection, as an operator's tool has.
func (b *broker) on(f func(conn *amqp.Connection, ch *amqp.Channel) error) error {
	conn, err := amqp.Dial(b.url)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return f(conn, ch)
}

func (b *broker) version() (version string, err error) {
	err = b.on(func(conn *amqp.Connection, _ *amqp.Channel) error {
		version, _ = conn.Properties["version"].(string)
		return nil
	})
	return version, err
}

// ready is how many messages of the queue nobody holds; an error when there is
// no such queue.
func (b *broker) ready(queue string) (n int, err error) {
	err = b.on(func(_ *amqp.Connection, ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		n = q.Messages
		return err
	})
	return n, err
}

// remove deletes the queue and returns how many ready messages went with it.
func (b *broker) remove(queue string) (n int, err error) {
	err = b.on(func(_ *amqp.Connection, ch *amqp.Channel) error {
		n, err = ch.QueueDelete(queue, false, false, false)
		return err
	})
	return n, err
}
