package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// test runs the tests of a module with the files, and returns the report and what it says of the run as a whole.
func test(t *testing.T, allowed string, files map[string]string) (string, error) {
	t.Helper()
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
	if err := runModule(t.Context(), r, dir, true, nil); err != nil {
		t.Fatal(err)
	}
	err = r.finish()
	return out.String(), err
}

// file is a test file with the functions.
func file(functions string) string {
	return "package m\n\nimport (\n\"os\"\n\"testing\"\n)\n\nvar _ = os.Exit\n\n" + functions
}

func check(t *testing.T, out string, err error, wantErr, last string, prints, hides []string) {
	t.Helper()
	if wantErr == "" && err != nil || wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)) {
		t.Errorf("error %v, want %q", err, wantErr)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if got := lines[len(lines)-1]; got != last {
		t.Errorf("last line %q, want %q", got, last)
	}
	for _, text := range prints {
		if !strings.Contains(out, text) {
			t.Errorf("no %q in the report", text)
		}
	}
	for _, text := range hides {
		if strings.Contains(out, text) {
			t.Errorf("%q in the report", text)
		}
	}
	if t.Failed() {
		t.Logf("the report:\n%s", out)
	}
}

func TestReportOfAllThatCanGoWrong(t *testing.T) {
	out, err := test(t, "", map[string]string{
		"pass/m_test.go":  file(`func TestPass(t *testing.T) { t.Log("quiet"); t.Run("sub", func(t *testing.T) {}) }`),
		"fail/m_test.go":  file(`func TestFail(t *testing.T) { t.Error("broken thing") }; func TestPass(t *testing.T) { t.Log("quiet") }`),
		"build/m_test.go": file(`func TestBuild(t *testing.T) { undefined() }`),
		"panic/m_test.go": file(`func TestPanic(t *testing.T) { panic("at the disco") }`),
		"exit/m_test.go":  file(`func TestExit(t *testing.T) { os.Exit(3) }`),
		"skip/m_test.go":  file(`func TestSkip(t *testing.T) { t.Skip("no server") }`),
		"none/m.go":       "package m\n",
	})
	// Failed: the test that fails, the one that panics, the one that exits, and the package that has none because it does
	// not build.
	check(t, out, err, "tests failed", "3 passed, 4 failed, 1 skipped",
		[]string{
			"ok    example.test/m/pass ", "2 passed", "FAIL  example.test/m/fail ", "broken thing",
			"FAIL  example.test/m/build ", "undefined: undefined", "at the disco", "=== RUN   TestExit",
			"SKIP  example.test/m/skip TestSkip", "no server",
		},
		[]string{"quiet", "example.test/m/none"})
}

func TestSkipsFailTheRunUnlessAllowed(t *testing.T) {
	files := map[string]string{
		"m_test.go": file(`func TestA(t *testing.T) { t.Run("s", func(t *testing.T) { t.Skip("no moon") }) }`),
	}
	out, err := test(t, "", files)
	check(t, out, err, "1 tests were skipped that the list", "1 passed, 0 failed, 1 skipped", []string{"no moon"}, nil)
	out, err = test(t, "# a comment\nexample.test/m TestA needs the moon", files)
	check(t, out, err, "", "1 passed, 0 failed, 1 skipped", []string{"skip  example.test/m TestA/s: needs the moon"}, nil)
}

func TestRunWithoutTestsFails(t *testing.T) {
	out, err := test(t, "", map[string]string{"m.go": "package m\n"})
	check(t, out, err, "no test ran", "0 passed, 0 failed, 0 skipped", nil, nil)
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
