package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// module lays out a module and returns what running its tests reported.
func module(t *testing.T, allowed string, files map[string]string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Fatal("the go command is not in PATH")
	}
	dir := t.TempDir()
	files["go.mod"] = "module example.test/m\n\ngo 1.26\n"
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := parseAllowed(allowed)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r := newReport(&out, list)
	// Not with -race: it says nothing more here, and costs a build of the runtime.
	if err := runModule(t.Context(), r, dir, true, nil); err != nil {
		t.Fatal(err)
	}
	err = r.finish()
	return out.String(), err
}

const head = "package m\n\nimport \"testing\"\n\n"

func TestReport(t *testing.T) {
	for _, c := range []struct {
		name    string
		allowed string
		files   map[string]string
		err     string
		last    string
		prints  []string
		hides   []string
	}{
		{
			name: "all pass",
			files: map[string]string{
				"m_test.go": head + `func TestA(t *testing.T) { t.Log("quiet"); t.Run("sub", func(t *testing.T) {}) }`,
			},
			last:   "2 passed, 0 failed, 0 skipped",
			prints: []string{"ok    example.test/m"},
			hides:  []string{"quiet"},
		},
		{
			name: "one fails",
			files: map[string]string{
				"m_test.go":   head + "func TestA(t *testing.T) { t.Error(\"broken thing\") }\nfunc TestB(t *testing.T) { t.Log(\"quiet\") }",
				"n/n_test.go": strings.Replace(head, "package m", "package n", 1) + "func TestC(t *testing.T) {}",
			},
			err:    "tests failed",
			last:   "2 passed, 1 failed, 0 skipped",
			prints: []string{"FAIL  example.test/m ", "broken thing", "ok    example.test/m/n"},
			hides:  []string{"quiet"},
		},
		{
			name:   "skip that nobody allowed",
			files:  map[string]string{"m_test.go": head + `func TestA(t *testing.T) { t.Skip("no server") }`},
			err:    "1 tests were skipped that the list",
			last:   "0 passed, 0 failed, 1 skipped",
			prints: []string{"SKIP  example.test/m TestA", "no server"},
		},
		{
			name:    "allowed skip",
			allowed: "# a comment\nexample.test/m TestA needs the moon",
			files: map[string]string{
				"m_test.go": head + `func TestA(t *testing.T) { t.Run("s", func(t *testing.T) { t.Skip() }) }`,
			},
			last:   "1 passed, 0 failed, 1 skipped",
			prints: []string{"skip  example.test/m TestA/s: needs the moon"},
		},
		{
			name:  "no tests",
			files: map[string]string{"m.go": "package m\n"},
			err:   "no test ran",
			last:  "0 passed, 0 failed, 0 skipped",
		},
		{
			name: "does not build",
			files: map[string]string{
				"m_test.go":   head + `func TestA(t *testing.T) { undefined() }`,
				"n/n_test.go": strings.Replace(head, "package m", "package n", 1) + "func TestC(t *testing.T) {}",
			},
			err:    "tests failed",
			last:   "1 passed, 1 failed, 0 skipped",
			prints: []string{"FAIL  example.test/m ", "undefined: undefined"},
		},
		{
			name:   "process dies in a test",
			files:  map[string]string{"m_test.go": head + `func TestA(t *testing.T) { panic("at the disco") }`},
			err:    "tests failed",
			last:   "0 passed, 1 failed, 0 skipped",
			prints: []string{"at the disco"},
		},
		{
			name:   "process exits in a test",
			files:  map[string]string{"m_test.go": "package m\n\nimport (\n\"os\"\n\"testing\"\n)\n\nfunc TestA(t *testing.T) { os.Exit(3) }"},
			err:    "tests failed",
			last:   "0 passed, 1 failed, 0 skipped",
			prints: []string{"=== RUN   TestA"},
		},
		{
			name:   "module that go cannot read",
			files:  map[string]string{"m_test.go": "not go"},
			err:    "tests failed",
			last:   "0 passed, 1 failed, 0 skipped",
			prints: []string{"expected 'package'"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, err := module(t, c.allowed, c.files)
			if got := errorText(err); !strings.Contains(got, c.err) || (c.err == "") != (err == nil) {
				t.Errorf("error %q, want %q", got, c.err)
			}
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if last := lines[len(lines)-1]; last != c.last {
				t.Errorf("last line %q, want %q", last, c.last)
			}
			for _, text := range c.prints {
				if !strings.Contains(out, text) {
					t.Errorf("no %q in the report", text)
				}
			}
			for _, text := range c.hides {
				if strings.Contains(out, text) {
					t.Errorf("%q in the report", text)
				}
			}
			if t.Failed() {
				t.Logf("the report:\n%s", out)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAllowedSkipNeedsAReason(t *testing.T) {
	if _, err := parseAllowed("\n# comment\npkg TestA\n"); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("error %v, want one that names line 3", err)
	}
}

func TestListOfAllowedSkipsIsWellFormed(t *testing.T) {
	content, err := os.ReadFile("allowed.txt")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseAllowed(string(content)); err != nil {
		t.Error(err)
	}
}
