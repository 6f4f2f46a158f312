package testservices

import (
	"os"
	"strings"
	"sync"
	"testing"
)

// home gives the script a folder of its own, as another checkout has.
func home(t *testing.T) []string {
	t.Helper()
	// Not t.TempDir: the server's unprivileged account must be able to enter.
	dir, err := os.MkdirTemp("/var/tmp", "sekali-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return []string{
		"SEKALI_SERVICES_DIR=" + dir, "SEKALI_SERVICES_VIA=local",
		"SEKALI_POSTGRES_URL=", "SEKALI_MARIADB_DSN=", "SEKALI_RABBITMQ_URL=", "SEKALI_RABBITMQ_MANAGEMENT_URL=",
	}
}

func mustScript(t *testing.T, env []string, args ...string) string {
	t.Helper()
	out, err := script(env, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestUpIsIdempotentAndDownLeavesNothing(t *testing.T) {
	need(t, variables[postgres])
	env := home(t)
	dir := strings.TrimPrefix(env[0], "SEKALI_SERVICES_DIR=")
	t.Cleanup(func() { mustScript(t, env, "down") })

	// Several at once, as when two terminals run the tests.
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if _, err := script(env, "up", postgres); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	first := mustScript(t, env, "env", postgres)
	mustScript(t, env, "up", postgres)
	if again := mustScript(t, env, "env", postgres); again != first {
		t.Errorf("up of what is up changed the environment:\n%s%s", first, again)
	}
	// A shell that has evaluated env does not take our server for one that it was given.
	value := strings.Trim(strings.TrimPrefix(strings.TrimSpace(first), "export SEKALI_POSTGRES_URL="), "'")
	if out := mustScript(t, append(env, "SEKALI_POSTGRES_URL="+value), "status", postgres); !strings.Contains(out, "up ") {
		t.Errorf("status says %q", out)
	}
	if of := strings.TrimSpace(mustScript(t, env, "run", "--instance", "passing", postgres, "--", "printenv", "SEKALI_POSTGRES_URL")); of == value || of == "" {
		t.Errorf("a command that was to have an instance of its own had %q", of)
	}
	if out, err := script(env, "status", "--instance", "passing", postgres); err == nil {
		t.Errorf("after run the instance is up: %q", out)
	}
	mustScript(t, env, "status", postgres)
	mustScript(t, env, "up", "--instance", "second", postgres)
	if other := mustScript(t, env, "env", "--instance", "second", postgres); other == first {
		t.Error("two instances share a server")
	}

	mustScript(t, env, "down")
	if left, err := os.ReadDir(dir); err == nil {
		t.Errorf("down left %v", left)
	}
	if out, err := script(env, "status", postgres); err == nil {
		t.Errorf("after down status says %q", out)
	}
}

func TestGivenServerIsUsedAndLeftAlone(t *testing.T) {
	const url = "postgres://me:secret@db.example.test:5432/app"
	env := append(home(t), "SEKALI_POSTGRES_URL="+url)
	mustScript(t, env, "up", postgres)
	if out := mustScript(t, env, "env", postgres); out != "export SEKALI_POSTGRES_URL='"+url+"'\n" {
		t.Errorf("env printed %q", out)
	}
	if _, err := script(env, "kill", postgres); err == nil || !strings.Contains(err.Error(), "given by the environment") {
		t.Errorf("kill of a given server: %v", err)
	}
	mustScript(t, env, "down")
}

func TestScriptNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		want string
		args []string
	}{
		{`unknown service "mysql": there are postgres mariadb rabbitmq redis`, []string{"up", "mysql"}},
		{`unknown verb "begin": run scripts/services help`, []string{"begin"}},
		{`postgres is not up: run scripts/services up postgres`, []string{"env", "postgres"}},
		{`nothing is up: run scripts/services up`, []string{"env"}},
		{`kill needs the name of a service`, []string{"kill"}},
		{`instance "a/b": use lower-case letters`, []string{"--instance", "a/b", "up"}},
	} {
		if _, err := script(home(t), c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("scripts/services %s: %v, want %q", strings.Join(c.args, " "), err, c.want)
		}
	}
}
