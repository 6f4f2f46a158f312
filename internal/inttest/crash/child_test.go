package crash

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/router"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// childVariable makes this test binary a consumer.
const childVariable = "SEKALI_CRASH_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		if err := runChild(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The points at which a child stops, says so, and waits for its death.
const (
	nowhere     = ""
	beforeClaim = "before claim"
	inHandler   = "in handler"
	beforeAck   = "after commit, before ack"
)

type settings struct {
	Driver   string `json:"driver"` // of database/sql
	Database string `json:"database"`
	Broker   string `json:"broker"`
	Queue    string `json:"queue"`
	Point    string `json:"point"`
}

// runChild consumes until its standard input ends.
func runChild(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
		if s.Point != nowhere {
			os.Exit(0) // the test is gone, and this process may stand at its point
		}
	}()
	reach := func(point string) {
		if point == s.Point {
			fmt.Println(point)
			select {}
		}
	}
	db, err := sql.Open(s.Driver, s.Database)
	if err != nil {
		return err
	}
	defer db.Close()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	box, err := pginbox.Open(ctx, db, pginbox.Config{Config: inbox.Config{Service: "crash", Logger: log, Hooks: inbox.Hooks{
		Done: func(_ context.Context, e inbox.Event) { fmt.Println(e.Outcome) },
	}}})
	if err != nil {
		return err
	}
	svc, err := router.New(s.Broker, box, router.Config{Topology: topology(), Logger: log})
	if err != nil {
		return err
	}
	svc.Watermill().AddMiddleware(func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			reach(beforeClaim)
			produced, err := h(msg)
			reach(beforeAck)
			return produced, err
		}
	})
	err = svc.Handle(s.Queue, func(msg *message.Message) error {
		tx, err := inbox.Tx(msg.Context())
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(msg.Context(), "INSERT INTO effects VALUES ($1)", string(msg.Payload))
		reach(inHandler)
		return err
	})
	if err != nil {
		return err
	}
	go func() {
		<-svc.Watermill().Running()
		fmt.Println(ready)
	}()
	return svc.Run(ctx)
}

// ready is what a child says when it consumes.
const ready = "ready"

func topology() *rabbit.Topology { return &rabbit.Topology{RetrySteps: []time.Duration{}} }

// process is a child as its test sees it.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Closer
	lines chan string // closed when the child has ended
	log   *os.File
}

func start(t *testing.T, s settings) *process {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	text, err := json.Marshal(s)
	must(t, err)
	p := &process{t: t, cmd: exec.Command(self), lines: make(chan string, 16)}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	p.log, err = os.Create(t.TempDir() + "/log")
	must(t, err)
	p.cmd.Stderr = p.log
	p.stdin, err = p.cmd.StdinPipe()
	must(t, err)
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	must(t, p.cmd.Start())
	go func() {
		defer close(p.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			p.lines <- scan.Text()
		}
		_ = p.cmd.Wait() // the test reads its state
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		for range p.lines {
		}
		if t.Failed() {
			text, _ := os.ReadFile(p.log.Name())
			t.Logf("log of the child:\n%s", text)
		}
		_ = p.log.Close()
	})
	return p
}

// says waits until the child has said these, in any order.
func (p *process) says(want ...string) {
	p.t.Helper()
	limit := time.After(patience)
	for len(want) > 0 {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("the child ended (%s), it should say %q", p.cmd.ProcessState, want)
			}
			i := slices.Index(want, line)
			if i < 0 {
				p.t.Fatalf("the child says %q, want %q", line, want)
			}
			want = slices.Delete(want, i, i+1)
		case <-limit:
			p.t.Fatalf("the child does not say %q", want)
		}
	}
}

// kill ends the child with SIGKILL and checks that it died of it.
func (p *process) kill() {
	p.t.Helper()
	must(p.t, p.cmd.Process.Kill())
	p.end()
	ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		p.t.Fatalf("the child ended with %s, not by SIGKILL", p.cmd.ProcessState)
	}
}

// stop has the child drain and end.
func (p *process) stop() {
	p.t.Helper()
	must(p.t, p.stdin.Close())
	p.end()
	if !p.cmd.ProcessState.Success() {
		p.t.Fatalf("the child ended with %s", p.cmd.ProcessState)
	}
}

func (p *process) end() {
	p.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				return
			}
			p.t.Logf("the child still said %q", line)
		case <-limit:
			p.t.Fatal("the child does not end")
		}
	}
}
