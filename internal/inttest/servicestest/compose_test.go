// Package servicestest checks that compose.yaml and scripts/services fit together, as far as no Docker engine is needed.
package servicestest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

const composeFile = "../../../compose.yaml"

// load reads compose.yaml as docker compose does: with its schema, its defaults and the given environment.
func load(t *testing.T, env types.Mapping) *types.Project {
	t.Helper()
	content, err := os.ReadFile(composeFile)
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  t.TempDir(),
		ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: content}},
		Environment: env,
	}, func(o *loader.Options) {
		o.SetProjectName("sekali", true)
		o.Profiles = []string{"*"}
	})
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// services names what scripts/services knows, and the ports inside the containers with the variables that move them outside.
var services = map[string]map[uint32]string{
	"postgres": {5432: "SEKALI_POSTGRES_PORT"},
	"mariadb":  {3306: "SEKALI_MARIADB_PORT"},
	"rabbitmq": {5672: "SEKALI_RABBITMQ_PORT", 15672: "SEKALI_RABBITMQ_MANAGEMENT_PORT"},
	"redis":    {6379: "SEKALI_REDIS_PORT"},
}

func TestComposeFileServesTheScript(t *testing.T) {
	env := types.Mapping{}
	published := map[string]string{}
	for name, ports := range services {
		env["SEKALI_"+strings.ToUpper(name)+"_PASSWORD"] = "secret-of-" + name
		for inside, variable := range ports {
			published[variable] = fmt.Sprint(30000 + inside)
			env[variable] = published[variable]
		}
	}
	project := load(t, env)
	for name, ports := range services {
		service, err := project.GetService(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if service.HealthCheck == nil || len(service.HealthCheck.Test) == 0 {
			t.Errorf("%s has no health check: up --wait would return before it is ready", name)
		}
		if len(service.Ports) != len(ports) {
			t.Errorf("%s publishes %d ports, want %d", name, len(service.Ports), len(ports))
		}
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" || port.Published != published[ports[port.Target]] {
				t.Errorf("%s publishes %s:%s for %d", name, port.HostIP, port.Published, port.Target)
			}
		}
		text := strings.Join(service.Command, " ")
		for _, value := range service.Environment {
			text += " " + *value
		}
		if !strings.Contains(text, "secret-of-"+name) {
			t.Errorf("%s does not take its password from SEKALI_%s_PASSWORD", name, strings.ToUpper(name))
		}
		if len(service.Volumes) != 0 {
			t.Errorf("%s has named volumes: down would leave data", name)
		}
	}
}

func TestComposeFileStartsTheVersionsWeSupport(t *testing.T) {
	project := load(t, nil)
	for name, image := range map[string]string{
		"postgres": "postgres:17", "mariadb": "mariadb:11", "rabbitmq": "rabbitmq:4-management",
	} {
		if got := project.Services[name].Image; got != image {
			t.Errorf("%s runs %q, want %q", name, got, image)
		}
	}
}

func TestHandmadeUpUsesNoStandardPort(t *testing.T) {
	for name, service := range load(t, nil).Services {
		for _, port := range service.Ports {
			if port.Published == "" || port.Published == fmt.Sprint(port.Target) {
				t.Errorf("%s publishes %q for %d", name, port.Published, port.Target)
			}
		}
	}
}

// The URLs in compose.yaml's comment are those of its defaults.
func TestHandmadeURLsMatchTheDefaults(t *testing.T) {
	content, err := os.ReadFile(composeFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, service := range load(t, nil).Services {
		for _, port := range service.Ports {
			if !bytes.Contains(content, []byte("127.0.0.1:"+port.Published)) {
				t.Errorf("no URL with port %s of %s in the comment", port.Published, name)
			}
		}
	}
}

// Where the Docker client has the compose plugin, its own word is asked; it needs no engine for this.
func TestDockerComposeAcceptsTheFile(t *testing.T) {
	if exec.Command("docker", "compose", "version").Run() != nil {
		t.Skip("the docker client with the compose plugin is not installed")
	}
	if out, err := exec.CommandContext(t.Context(), "docker", "compose", "--file", composeFile, "config", "--quiet").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
