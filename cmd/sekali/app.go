package main

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/report"
	"github.com/sekali-mq/sekali/cmd/sekali/internal/source"
)

// app is one call of the command.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            environment
	flags          flags
	bounds         source.Bounds
	started        bool // the arguments were found right
	secrets        source.Secrets
	// asksThere tells whether somebody sits at the terminal who can be asked.
	asksThere func() bool
	opened    []io.Closer
}

func newApp(stdin io.Reader, stdout, stderr io.Writer, environ []string) *app {
	a := &app{stdin: stdin, stdout: stdout, stderr: report.Shared(stderr), env: newEnvironment(environ)}
	a.asksThere = func() bool { return isTerminal(a.stdin) && isTerminal(stderr) }
	return a
}

// run returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	for _, arg := range args {
		a.secrets.Guess(arg)
	}
	root := a.root()
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	for _, c := range a.opened {
		_ = c.Close()
	}
	exit := code(err, a.started)
	if err == nil || err.Error() == "" {
		return exit
	}
	a.sayf("sekali: %s", report.Printable(a.secrets.Hide(source.Sentence(err))))
	if exit == exitUsage {
		a.sayf("Try: %s --help", command.CommandPath())
	}
	return exit
}

// sayf prints a line on standard error: what is not the result.
func (a *app) sayf(format string, args ...any) {
	report.Linef(a.stderr, format, args...)
}

// printer prints the result.
func (a *app) printer() *report.Printer { return report.New(a.stdout, a.flags.json) }

// later closes c at the end of the command.
func (a *app) later(c io.Closer) { a.opened = append(a.opened, c) }

// logger shows what a library wants an operator to know, from a warning on.
func (a *app) logger() *slog.Logger {
	level := slog.LevelWarn
	if a.flags.verbose {
		level = slog.LevelInfo
	}
	return slog.New(report.NewLog(a.stderr, level, a.secrets.Hide))
}

// begin is called when the arguments are right and before anything is done.
func (a *app) begin(_ *cobra.Command, _ []string) error {
	if err := a.flags.check(); err != nil {
		return err
	}
	a.started = true
	return nil
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
