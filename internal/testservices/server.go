package testservices

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Server is a private server, for a test that stops or kills it. Its methods return when what they say has happened, and end
// the test when it did not; they are for one goroutine at a time, the test's own where they can fail.
type Server struct {
	t        testing.TB
	service  string
	instance string
	env      map[string]string
}

// Start starts a private "postgres", "mariadb" or "rabbitmq" and ends it, with its data, at the end of the test. A PostgreSQL or MariaDB takes one to three
// seconds, a RabbitMQ eight. It skips the test when the environment does not name a shared server of the kind: without
// services no test starts one.
func Start(t testing.TB, service string) *Server {
	t.Helper()
	variable, known := variables[service]
	if !known {
		t.Fatalf("start a private %q: there are postgres, mariadb and rabbitmq", service)
	}
	need(t, variable)
	s := &Server{t: t, service: service, instance: "t" + token(), env: map[string]string{}}
	t.Cleanup(func() { s.script("down") })
	// Should this process die before its cleanup, "scripts/services down" ends the server all the same.
	s.script("up", "--owner", strconv.Itoa(os.Getpid()), service)
	for line := range strings.Lines(s.script("env", service)) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		s.env[name] = strings.Trim(value, "'")
	}
	return s
}

// URL returns the server's URL, in the form of the shared one's; it stays over restarts.
func (s *Server) URL() string { return s.env[variables[s.service]] }

// ManagementURL returns the URL of a RabbitMQ's management API, with the credentials in it.
func (s *Server) ManagementURL() string { return s.env[managementVariable] }

// NewDatabase creates an empty database on a PostgreSQL or MariaDB and returns its URL. It goes with the server.
func (s *Server) NewDatabase() string {
	s.t.Helper()
	switch s.service {
	case postgres:
		return newPostgresDatabase(s.t, s.URL(), Name(s.t))
	case mariaDB:
		return newMariaDBDatabase(s.t, s.URL(), Name(s.t))
	default:
		s.t.Fatalf("a %s has no databases", s.service)
		return ""
	}
}

// Stop shuts the server down as an operator does. The data stays.
func (s *Server) Stop() { s.t.Helper(); s.script("stop", s.service) }

// Kill ends the server and all its processes with SIGKILL, at once, as a crash does. What was written stays.
func (s *Server) Kill() { s.t.Helper(); s.script("kill", s.service) }

// Start starts a stopped or killed server on its port and data; it returns when the server takes connections.
func (s *Server) Start() { s.t.Helper(); s.script("start", s.service) }

// Restart is Stop and Start.
func (s *Server) Restart() { s.t.Helper(); s.script("restart", s.service) }

// Ctl runs rabbitmqctl on a RabbitMQ and returns what it printed.
func (s *Server) Ctl(args ...string) string {
	s.t.Helper()
	return s.script("ctl", args...)
}

// Log returns the path of the server's log.
func (s *Server) Log() string {
	s.t.Helper()
	return strings.TrimSpace(s.script("log", s.service))
}

func (s *Server) script(verb string, args ...string) string {
	s.t.Helper()
	out, err := script(nil, append([]string{"--instance", s.instance, verb}, args...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// script runs scripts/services and returns its standard output; the error carries what it said on standard error.
func script(env []string, args ...string) (string, error) {
	path, err := find()
	if err != nil {
		return "", err
	}
	command := exec.Command(path, args...)
	command.Env = append(os.Environ(), env...)
	var out, diagnostics bytes.Buffer
	command.Stdout, command.Stderr = &out, &diagnostics
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("scripts/services %s: %w\n%s", strings.Join(args, " "), err, diagnostics.String())
	}
	return out.String(), nil
}

// find returns the script's path: tests run in the folder of their package, at some depth of the checkout.
func find() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for from := dir; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "scripts", "services")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find scripts/services: not in %s nor above", from)
		}
	}
}
