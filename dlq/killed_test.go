package dlq_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/sqliteinbox"
)

// killVariable makes the test binary the redriving process: where to die, the
// database, and the file that is its broker.
const killVariable = "SEKALI_DLQ_KILL"

func TestMain(m *testing.M) {
	if spec := os.Getenv(killVariable); spec != "" {
		fmt.Fprintln(os.Stderr, doomed(strings.Split(spec, "|")))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// paper is a broker that outlives the process: a line for each confirmed message.
type paper struct {
	file string
	// die is asked before and after each message.
	die func(step string, n int)
	n   int
}

func (p *paper) PublishEach(_ context.Context, _ string, msgs ...*message.Message) []error {
	f, err := os.OpenFile(p.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	errs := make([]error, len(msgs))
	for i, m := range msgs {
		p.n++
		p.die("before", p.n)
		_, werr := fmt.Fprintln(f, m.Metadata[letter.HeaderRedrive])
		errs[i] = errors.Join(err, werr)
		p.die("after", p.n)
	}
	_ = f.Close()
	return errs
}

// doomed redrives until it kills itself.
func doomed(spec []string) error {
	step, at := "", 0
	if _, err := fmt.Sscanf(spec[0], "%s %d", &step, &at); err != nil {
		return err
	}
	die := func(s string, n int) {
		if s == step && n == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	ctx := context.Background()
	db, err := sql.Open("sqlite", sqliteinbox.DSN(spec[1]))
	if err != nil {
		return err
	}
	box, err := sqliteinbox.Open(ctx, db, sqliteinbox.Config{Config: inbox.Config{Service: "test"}})
	if err != nil {
		return err
	}
	letters, err := dlq.Open(ctx, db, dlq.Config{Inboxes: map[string]*inbox.Inbox{"main": box}})
	if err != nil {
		return err
	}
	batches := 0
	_, err = letters.Redrive(ctx, &paper{file: spec[2], die: die}, dlq.RedriveConfig{
		Filter: dlq.Filter{All: true}, Rate: -1, Batch: 3, Lease: 200 * time.Millisecond,
		Progress: func(dlq.Run) { batches++; die("marked", batches) },
	})
	return fmt.Errorf("it survived: %w", err)
}

// A process dies between every two steps of a redrive: what it published is
// published again at most once, and nothing is marked as sent that is not in the
// broker.
func TestAProcessThatIsKilledBetweenAnyTwoStepsLosesNothing(t *testing.T) {
	for _, where := range []string{"before 1", "after 1", "before 3", "after 3", "marked 1", "before 5", "after 6", "marked 2"} {
		t.Run(where, func(t *testing.T) {
			dir := t.TempDir()
			file, broker := filepath.Join(dir, "letters.db"), filepath.Join(dir, "broker")
			d := databases[3]
			d.open = func(t testing.TB) *sql.DB { return pool(t, "sqlite", sqliteinbox.DSN(file)) }
			r := newRig(t, d, dlq.Config{})
			ids := r.fill(8)
			self, err := os.Executable()
			r.must(err)
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Env = append(os.Environ(), killVariable+"="+where+"|"+file+"|"+broker)
			out, err := cmd.CombinedOutput()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("%v: %s", err, out)
			}
			published := func() map[string]int {
				text, _ := os.ReadFile(broker)
				got := map[string]int{}
				for line := range strings.Lines(string(text)) {
					got[strings.TrimSpace(line)]++
				}
				return got
			}
			before := published()
			for _, id := range ids {
				if r.get(id).State == dlq.Sent && before[fmt.Sprintf("%d/1", id)] == 0 {
					t.Errorf("letter %d is marked as sent and is not", id)
				}
			}
			runs, err := r.letters.Runs(t.Context(), 1)
			r.must(err)
			var run dlq.Run
			for { // until the lease of the dead process runs out
				run, err = r.letters.Resume(t.Context(), &paper{file: broker, die: func(string, int) {}}, runs[0].ID, dlq.ResumeConfig{})
				if !errors.Is(err, dlq.ErrBusy) {
					break
				}
			}
			if err != nil || run.State != dlq.Done || r.states()[dlq.Sent] != 8 {
				t.Fatalf("resumed: %+v, %v, %v", run, err, r.states())
			}
			for _, id := range ids {
				if n := published()[fmt.Sprintf("%d/1", id)]; n < 1 || n > 2 {
					t.Errorf("letter %d was published %d times", id, n)
				}
			}
		})
	}
}
