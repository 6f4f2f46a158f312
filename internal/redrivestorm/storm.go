package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/router"
	"github.com/sekali-mq/sekali/router/rabbit"
)

const (
	service = "storm"
	// patience bounds the wait for what must happen in the end.
	patience = 3 * time.Minute
	// apart: two kills, at most.
	apart = 1500 * time.Millisecond
)

type config struct {
	letters, kills   int
	postgres, rabbit string
}

// storming is one storm.
type storming struct {
	config

	database string // URL of its own
	queue    string
	db       *sql.DB
	box      *inbox.Inbox
	failed   sync.Map // letters that died once more
	killed   int
}

// report is the books in the end.
type report struct {
	letters, kills, runs   int
	lost, doubled, strange int
	states                 map[dlq.State]int64
	took                   time.Duration
}

func (r report) String() string {
	return fmt.Sprintf("%d letters, %d kills, %d runs in %s: %d lost, %d doubled, %d strange; letters %v",
		r.letters, r.kills, r.runs, r.took.Round(time.Second), r.lost, r.doubled, r.strange, r.states)
}

// storm runs one, from an empty database to the books.
func storm(ctx context.Context, c config) (rep report, err error) {
	if c.postgres == "" || c.rabbit == "" {
		return rep, errors.New(`servers are missing: scripts/services up && eval "$(scripts/services env)"`)
	}
	start := time.Now()
	s := &storming{config: c, queue: "storm." + strings.ToLower(rand.Text()[:10])}
	drop, err := s.newDatabase(ctx)
	if err != nil {
		return rep, err
	}
	defer drop()
	if s.db, err = sql.Open("postgres", s.database); err != nil {
		return rep, err
	}
	defer s.db.Close()
	s.db.SetMaxOpenConns(24)
	s.db.SetMaxIdleConns(24)
	letters, err := s.prepare(ctx)
	if err != nil {
		return rep, err
	}
	stop, err := s.serve(ctx, letters)
	if err != nil {
		return rep, err
	}
	defer stop()
	if err := s.drive(ctx, letters); err != nil {
		return rep, err
	}
	rep, err = s.books(ctx, letters)
	rep.took = time.Since(start)
	return rep, err
}

// newDatabase makes one of its own on the server.
func (s *storming) newDatabase(ctx context.Context) (drop func(), err error) {
	u, err := url.Parse(s.postgres)
	if err != nil {
		return nil, fmt.Errorf("parse the URL of PostgreSQL: %w", err)
	}
	name := strings.ReplaceAll(s.queue, ".", "_")
	exec := func(ctx context.Context, statement string) error {
		db, err := sql.Open("postgres", s.postgres)
		if err != nil {
			return err
		}
		defer db.Close()
		_, err = db.ExecContext(ctx, statement)
		return err
	}
	if err := exec(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	u.Path = "/" + name
	s.database = u.String()
	return func() {
		if err := exec(context.WithoutCancel(ctx), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			fmt.Fprintln(os.Stderr, "redrivestorm: drop the database:", err)
		}
	}, nil
}

func (s *storming) prepare(ctx context.Context) (*dlq.Letters, error) {
	if err := errors.Join(pginbox.Migrate(ctx, s.db, pginbox.Config{}), dlq.Migrate(ctx, s.db)); err != nil {
		return nil, err
	}
	if _, err := s.db.ExecContext(ctx, "CREATE TABLE effects (name TEXT NOT NULL)"); err != nil { // no key: doubles are seen
		return nil, err
	}
	var err error
	if s.box, err = pginbox.Open(ctx, s.db, pginbox.Config{Config: inbox.Config{Service: service}}); err != nil {
		return nil, err
	}
	return dlq.Open(ctx, s.db, dlq.Config{Inboxes: map[string]*inbox.Inbox{"main": s.box}})
}

// serve runs the consumer and the collector, and fills the dead letter queue.
func (s *storming) serve(ctx context.Context, letters *dlq.Letters) (stop func(), err error) {
	svc, err := router.New(s.rabbit, s.box, router.Config{Topology: &rabbit.Topology{RetrySteps: []time.Duration{}}, Concurrency: 8})
	if err != nil {
		return nil, err
	}
	if err := svc.Handle(s.queue, s.handle); err != nil {
		return nil, err
	}
	conn, err := rabbit.NewConnection(s.rabbit, rabbit.ConnectionConfig{})
	if err != nil {
		return nil, err
	}
	sub, err := rabbit.NewSubscriber(conn, rabbit.SubscriberConfig{Concurrency: 8})
	if err != nil {
		return nil, err
	}
	pub, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	if err != nil {
		return nil, err
	}
	mill, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	mill.AddConsumerHandler("collector", rabbit.DeadLetterQueue(s.queue), sub, letters.Collector(dlq.CollectorConfig{}))
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	run := func(what string, run func(context.Context) error) {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				fmt.Fprintln(os.Stderr, "redrivestorm:", what+":", err)
			}
		})
	}
	run("consumer", svc.Run)
	stop = func() {
		cancel()
		wg.Wait()
		_ = pub.Close()
		_ = conn.Close()
		s.deleteQueues(context.WithoutCancel(ctx))
	}
	select {
	case <-svc.Watermill().Running():
	case <-time.After(patience):
		return stop, errors.New("the consumer does not start")
	}
	if err := s.die(ctx, pub.ToQueues()); err != nil {
		stop()
		return nil, err
	}
	run("collector", mill.Run)
	return stop, nil
}

// drive starts the redriving process and kills it, then lets it finish.
func (s *storming) drive(ctx context.Context, letters *dlq.Letters) error {
	if err := s.until(ctx, "letters are collected", func() (bool, error) {
		n, err := letters.Count(ctx, dlq.Filter{})
		return n == int64(s.letters), err
	}); err != nil {
		return err
	}
	text, err := json.Marshal(spec{Database: s.database, Broker: s.rabbit, Rate: max(50, s.letters*2/max(1, s.kills))}) //nolint:musttag // this program reads it
	if err != nil {
		return err
	}
	for s.killed < s.kills {
		if err := s.child(ctx, string(text), time.Duration(mrand.Int64N(int64(apart)))+apart/5); err != nil {
			return err
		}
	}
	// Letters that died once more wait for another run.
	return s.until(ctx, "all letters are at rest", func() (bool, error) {
		if err := s.child(ctx, string(text), 0); err != nil {
			return false, err
		}
		n, err := letters.Count(ctx, dlq.Filter{States: []dlq.State{dlq.Waiting, dlq.Sending}})
		if err != nil || n != int64(s.count(func(k kind) bool { return k == conflict })) {
			return false, err
		}
		var effects int
		err = s.db.QueryRowContext(ctx, "SELECT count(*) FROM effects").Scan(&effects)
		return effects >= s.count(func(k kind) bool { return k.effects() > 0 }), err
	})
}

func (s *storming) count(of func(kind) bool) (n int) {
	for i := range s.letters {
		if of(kindOf(i)) {
			n++
		}
	}
	return n
}

// child runs the process; after that time it is killed with SIGKILL.
func (s *storming) child(ctx context.Context, text string, kill time.Duration) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childVariable+"="+text)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	var killer <-chan time.Time
	if kill > 0 {
		killer = time.After(kill)
	}
	select {
	case err := <-done:
		return err
	case <-killer:
		if err := cmd.Process.Kill(); err == nil {
			s.killed++
		}
		<-done //nolint:errcheck // it was killed
		return nil
	}
}

func (s *storming) until(ctx context.Context, what string, f func() (bool, error)) error {
	deadline := time.Now().Add(patience)
	for {
		ok, err := f()
		if ok || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("did not happen in %s: %s", patience, what)
		}
		time.Sleep(50 * time.Millisecond) //nolint:mnd // often enough
	}
}
