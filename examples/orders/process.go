package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// process is one child as its parent sees it. Its fields belong to the loop of
// the parent.
type process struct {
	role    string
	release string
	cmd     *exec.Cmd
	stdin   io.WriteCloser

	ready    bool
	worked   bool // has reported work since its start
	inFlight int  // deliveries that it has and has not settled, as reported
	stopping bool // asked to end
	killed   bool // by us
	ended    bool
	enforces bool // has told that it does
	// succeeded: it ended by itself and in good order.
	succeeded bool
	// sigkilled: its state says that it died of the SIGKILL that we sent.
	sigkilled bool
}

// news is a line of a child, or its end.
type news struct {
	from *process
	line string
	end  *os.ProcessState // nil while it runs
	last string           // what it said last on standard error
}

// processes starts children and reads what they say.
type processes struct {
	news   chan news
	starts chan func()
	closed chan struct{}
}

func newProcesses() *processes {
	p := &processes{news: make(chan news, 1024), starts: make(chan func()), closed: make(chan struct{})}
	go func() {
		// Linux kills a child with the thread that started it (process_linux.go), so
		// this one lives as long as the parent wants children.
		runtime.LockOSThread()
		for {
			select {
			case f := <-p.starts:
				f()
			case <-p.closed:
				return
			}
		}
	}()
	return p
}

// close ends what start needs. All children must have ended.
func (p *processes) close() { close(p.closed) }

func (p *processes) start(s settings) (*process, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &process{role: s.Role, release: s.Release, cmd: exec.Command(self)}
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	c.cmd.SysProcAttr = dieWithParent()
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	last := &lastLine{verbose: s.Verbose}
	c.cmd.Stderr = last
	started := make(chan error)
	p.starts <- func() { started <- c.cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Role, err)
	}
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.news <- news{from: c, line: lines.Text()}
		}
		_ = c.cmd.Wait() // its state says it
		p.news <- news{from: c, end: c.cmd.ProcessState, last: last.text}
	}()
	return c, nil
}

// kill sends SIGKILL. Whether the child died of it, its state will say.
func (c *process) kill() error {
	c.killed = true
	return c.cmd.Process.Kill()
}

// stop asks the child to finish.
func (c *process) stop() {
	if !c.stopping {
		c.stopping = true
		_ = c.stdin.Close()
	}
}

// bySIGKILL tells whether SIGKILL ended a process.
func bySIGKILL(state *os.ProcessState) bool {
	ws, ok := state.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}

// lastLine keeps the end of what a child says on standard error.
type lastLine struct {
	verbose bool
	text    string
}

func (l *lastLine) Write(p []byte) (int, error) {
	if l.verbose {
		_, _ = os.Stderr.Write(p)
	}
	lines := strings.Split(strings.TrimSpace(string(p)), "\n")
	if text := lines[len(lines)-1]; text != "" {
		l.text = text
	}
	return len(p), nil
}
