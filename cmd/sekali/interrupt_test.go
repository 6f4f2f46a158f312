package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func itoa(v any) string { return fmt.Sprintf("%.0f", v) }

// process is the command as a process of its own.
type process struct {
	t        *testing.T
	command  *exec.Cmd
	out, err bytes.Buffer
}

func (d *desk) spawn(args ...string) *process {
	d.t.Helper()
	p := &process{t: d.t, command: exec.Command(os.Args[0], args...)}
	p.command.Env = append(append(os.Environ(), d.env...), "SEKALI_TEST_COMMAND=1")
	p.command.Stdout, p.command.Stderr = &p.out, &p.err
	if err := p.command.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = p.command.Process.Kill() })
	return p
}

// interrupt sends SIGINT, as Ctrl-C does, and waits for the end.
func (p *process) interrupt() result {
	p.t.Helper()
	if err := p.command.Process.Signal(syscall.SIGINT); err != nil {
		p.t.Fatal(err)
	}
	return p.wait()
}

func (p *process) wait() result {
	p.t.Helper()
	ended := time.AfterFunc(40*time.Second, func() { _ = p.command.Process.Kill() })
	err := p.command.Wait()
	if !ended.Stop() {
		p.t.Errorf("it did not end within 40 s:\n%s%s", p.out.String(), p.err.String())
	}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		p.t.Fatal(err)
	}
	return result{t: p.t, args: p.command.Args[1:], exit: p.command.ProcessState.ExitCode(), out: p.out.String(), errText: p.err.String()}
}

func TestAnInterruptedRedriveSaysHowToGoOnAndNothingIsDoubled(t *testing.T) {
	d := newDesk(t, places[1])
	const n = 60
	d.letters(n)
	d.mend()
	p := d.spawn("dlq", "redrive", "--queue", "orders.stock", "--rate", "10", "--batch", "2")
	d.until("some were sent", func() bool { return d.count("--state", "sent,resolved") > 0 })
	r := p.interrupt().wants(exitLeft, "interrupted: run", "nothing is lost or doubled", "--cancel")
	_, rest, ok := strings.Cut(r.errText, "To go on: sekali dlq redrive --resume ")
	if !ok {
		t.Fatalf("it does not say how to go on:\n%s", r.errText)
	}
	run := strings.FieldsFunc(rest, func(r rune) bool { return r == ';' || r == ' ' || r == '\n' })[0]
	if d.count("--state", "waiting") == 0 {
		t.Error("nothing was left to be interrupted")
	}
	d.call("dlq", "runs").wants(exitDone, run)
	d.call("dlq", "redrive", "--resume", run).wants(exitDone, "done")
	for i := range n {
		key := fmt.Sprintf("order-%d", i+1)
		d.processed(key)
		if times := d.handled(key); times != 1 {
			t.Errorf("%s ran %d times", key, times)
		}
	}
	d.call("dlq", "redrive", "--resume", run).wants(exitDone) // nothing is left
	d.call("dlq", "redrive", "--resume", "no-such-run").wants(exitFailed, "there is no run of this id")
}

func TestAnInterruptedRunCanBeCancelled(t *testing.T) {
	d := newDesk(t, places[0])
	d.letters(40)
	d.mend()
	p := d.spawn("dlq", "redrive", "--queue", "orders.stock", "--rate", "10", "--batch", "2", "--json")
	d.until("some were sent", func() bool { return d.count("--state", "sent,resolved") > 0 })
	r := p.interrupt().wants(exitLeft, "interrupted")
	run := r.line()["run"].(string)
	d.call("dlq", "redrive", "--cancel", run, "--why", "not today").wants(exitDone, "Cancelled: run "+run)
	d.call("dlq", "runs").wants(exitDone, "cancelled")
}

func TestACollectorRunsUntilItIsInterrupted(t *testing.T) {
	d := newDesk(t, places[1])
	p := d.spawn("dlq", "collect", "orders.stock.dlq")
	for i := range 5 {
		d.publish("orders.stock", fmt.Sprintf("order-%d", i+1), "x")
	}
	d.until("they are collected", func() bool { return d.count() == 5 })
	p.interrupt().wants(exitDone, "running until it is interrupted", "Collected: 5 letters from orders.stock.dlq; the queue is empty", "Next: sekali dlq kinds")
}
