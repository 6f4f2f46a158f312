package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// servers restarts the servers that scripts/services started.
type servers struct{ script string }

// findServers checks that a server may be restarted: that the URL in use is one
// of scripts/services. names are those that it knows.
func findServers(ctx context.Context, names map[string]string) (servers, error) {
	var s servers
	dir, err := os.Getwd()
	if err != nil {
		return s, err
	}
	for s.script == "" {
		path := filepath.Join(dir, "scripts", "services")
		if _, err := os.Stat(path); err == nil {
			s.script = path
		} else if dir == filepath.Dir(dir) {
			return s, fmt.Errorf("restart a server: scripts/services is not in this folder or above: run from the checkout")
		}
		dir = filepath.Dir(dir)
	}
	for name, variable := range names {
		out, err := s.run(ctx, "env", name)
		if err != nil || !strings.Contains(out, "'"+os.Getenv(variable)+"'") {
			return s, fmt.Errorf(`restart %s: the server of %s was not started by scripts/services, and others may be using it: run scripts/services up && eval "$(scripts/services env)"`, name, variable)
		}
	}
	return s, nil
}

func (s servers) restart(ctx context.Context, name string) error {
	_, err := s.run(ctx, "restart", name)
	return err
}

// run runs the script without our URLs: it takes those for servers of others.
func (s servers) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.script, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, postgresVariable+"=") && !strings.HasPrefix(v, rabbitVariable+"=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	var failure strings.Builder
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("scripts/services %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(failure.String()))
	}
	return string(out), nil
}
