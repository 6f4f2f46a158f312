package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is one line of "go test -json": see "go doc test2json" and "go help buildjson".
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// report gathers what the tests of several modules did.
type report struct {
	out     io.Writer
	allowed []allowance
	anySkip bool

	passed, failed, skipped int

	packages map[string]*pkg
	builds   map[string]*strings.Builder // compiler output, by import path
	broken   []string                    // packages that failed
	unlisted []string                    // skips that nobody allowed
	listed   []string
}

// pkg is a package whose tests are running.
type pkg struct {
	output  map[string]*strings.Builder // by test; "" is the package itself
	order   []string                    // tests in the order in which they began
	passed  int
	skipped int
	failed  []string
	running map[string]bool
}

func newReport(out io.Writer, allowed []allowance) *report {
	return &report{out: out, allowed: allowed, packages: map[string]*pkg{}, builds: map[string]*strings.Builder{}}
}

// read takes the events of one run of "go test -json".
func (r *report) read(events io.Reader) error {
	decoder := json.NewDecoder(events)
	for {
		var e event
		switch err := decoder.Decode(&e); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		r.take(e)
	}
}

func (r *report) take(e event) {
	if e.Action == "build-output" {
		if r.builds[e.ImportPath] == nil {
			r.builds[e.ImportPath] = &strings.Builder{}
		}
		r.builds[e.ImportPath].WriteString(e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &pkg{output: map[string]*strings.Builder{}, running: map[string]bool{}}
		r.packages[e.Package] = p
	}
	switch {
	case e.Action == "output":
		p.print(e.Test, e.Output)
	case e.Test != "":
		r.takeTest(p, e)
	case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
		r.takePackage(p, e)
		delete(r.packages, e.Package)
	}
}

func (p *pkg) print(test, text string) {
	if p.output[test] == nil {
		p.output[test] = &strings.Builder{}
		p.order = append(p.order, test)
	}
	p.output[test].WriteString(text)
}

func (r *report) takeTest(p *pkg, e event) {
	switch e.Action {
	case "run":
		p.running[e.Test] = true
		return
	case "pass":
		r.passed++
		p.passed++
		delete(p.output, e.Test)
	case "fail":
		r.failed++
		p.failed = append(p.failed, e.Test)
	case "skip":
		r.skipped++
		p.skipped++
		r.takeSkip(p, e)
		delete(p.output, e.Test)
	default: // pause, cont, bench, ...
		return
	}
	delete(p.running, e.Test)
}

func (r *report) takeSkip(p *pkg, e event) {
	if reason, ok := allows(r.allowed, e.Package, e.Test); ok {
		r.listed = append(r.listed, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason))
		return
	}
	said := ""
	if output := p.output[e.Test]; output != nil {
		said = output.String()
	}
	r.unlisted = append(r.unlisted, fmt.Sprintf("%s %s\n%s", e.Package, e.Test, said))
}

func (r *report) takePackage(p *pkg, e event) {
	switch {
	case e.Action == "fail":
		r.broken = append(r.broken, e.Package)
		fmt.Fprintf(r.out, "FAIL  %s  %.1f s\n", e.Package, e.Elapsed)
		r.explain(p, e)
	case p.passed+p.skipped > 0:
		skipped := ""
		if p.skipped > 0 {
			skipped = fmt.Sprintf(", %d skipped", p.skipped)
		}
		fmt.Fprintf(r.out, "ok    %s  %.1f s, %d passed%s\n", e.Package, e.Elapsed, p.passed, skipped)
	}
}

// explain prints all that a failed package had to say.
func (r *report) explain(p *pkg, e event) {
	if build := r.builds[e.FailedBuild]; build != nil {
		fmt.Fprint(r.out, build.String())
	}
	// A test that was running when the process died has no result of its own.
	for test := range p.running {
		r.failed++
		p.failed = append(p.failed, test)
	}
	if len(p.failed) == 0 {
		r.failed++ // it does not build, or failed outside its tests
	}
	for _, test := range p.order {
		if output := p.output[test]; output != nil && (test == "" || slices.Contains(p.failed, test)) {
			fmt.Fprint(r.out, output.String())
		}
	}
}

// exited notes that "go test" ended with the code: without a failed package to explain it, that is a failure by itself.
func (r *report) exited(dir string, code int) {
	if len(r.broken) == 0 {
		r.failed++
		r.broken = append(r.broken, dir)
		fmt.Fprintf(r.out, "FAIL  %s: go test ended with %d\n", dir, code)
	}
}

// finish prints the summary and returns what is wrong with the run as a whole.
func (r *report) finish() error {
	for name := range r.packages {
		r.failed++
		fmt.Fprintf(r.out, "FAIL  %s: no result\n", name)
	}
	slices.Sort(r.listed)
	for _, skip := range r.listed {
		fmt.Fprintf(r.out, "skip  %s\n", skip)
	}
	for _, skip := range r.unlisted {
		fmt.Fprintf(r.out, "SKIP  %s", skip)
	}
	defer fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	switch {
	case r.failed > 0:
		return errors.New("tests failed")
	case len(r.unlisted) > 0 && !r.anySkip:
		return fmt.Errorf("%d tests were skipped that the list of allowed skips does not name", len(r.unlisted))
	case r.passed == 0:
		return errors.New("no test ran")
	}
	return nil
}
