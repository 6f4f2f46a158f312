// Command runtests runs the tests of every module of the workspace, and is stricter than "go test": it fails on a skipped test
// that is not on the list of allowed skips, and when no test ran.
//
//	go run ./internal/runtests [-allow file | -any-skip] -- [arguments of go test]
//
// The published module is tested with GOWORK=off, with the versions that its users get; a workspace raises them to the highest
// that any nested module wants. The nested modules are tested inside the workspace.
//
// It prints a line for each package, what failing tests printed, and as the last line "N passed, N failed, N skipped".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	// An interrupt ends the tests, which end what they started.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	allowFile := flag.String("allow", "internal/runtests/allowed.txt", "file with the skips that are allowed")
	anySkip := flag.Bool("any-skip", false, "allow all skips, and print them")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: runtests [-allow file | -any-skip] [--] [arguments of go test, packages excepted]")
		flag.PrintDefaults()
	}
	flag.Parse()
	err := run(ctx, os.Stdout, *allowFile, *anySkip, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtests:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, allowFile string, anySkip bool, args []string) error {
	content, err := os.ReadFile(allowFile)
	if err != nil {
		return err
	}
	allowed, err := parseAllowed(string(content))
	if err != nil {
		return fmt.Errorf("%s: %w", allowFile, err)
	}
	list, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("list the modules of the workspace: %w", err)
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	r := newReport(out, allowed)
	r.anySkip = anySkip
	for dir := range strings.FieldsSeq(string(list)) {
		if err := runModule(ctx, r, dir, dir == root, args); err != nil {
			return err
		}
	}
	return r.finish()
}

// runModule runs one module's tests. What fails in them is in the report; its own error says that they could not be run or read.
func runModule(ctx context.Context, r *report, dir string, published bool, args []string) error {
	command := exec.CommandContext(ctx, "go", append(append([]string{"test", "-json"}, args...), "./...")...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = time.Minute
	command.Dir = dir
	command.Env = os.Environ()
	if published {
		command.Env = append(command.Env, "GOWORK=off")
	}
	command.Stderr = os.Stderr
	events, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	readErr := r.read(events)
	if readErr != nil {
		_, _ = io.Copy(io.Discard, events)
	}
	err = command.Wait()
	if readErr != nil {
		return fmt.Errorf("read the events of go test in %s: %w", dir, readErr)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		r.exited(dir, exit.ExitCode())
		return nil
	}
	return err
}
