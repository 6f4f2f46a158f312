package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
)

// childVariable holds the settings of a child in its environment: they have
// credentials in them, which arguments would show to every user of the machine.
const childVariable = "SEKALI_ORDERS_CHILD"

// Roles that are no service.
const (
	producerRole = "producer"
	resenderRole = "resender"
)

// settings of a child.
type settings struct {
	Role     string `json:"role"`
	Driver   string `json:"driver"` // of database/sql
	Database string `json:"database"`
	Broker   string `json:"broker"`
	Topic    string `json:"topic"`
	From     int    `json:"from"`    // the first order to send
	To       int    `json:"to"`      // resender: where it ends
	Every    int    `json:"every"`   // resender: and how many it goes on each time
	Release  string `json:"release"` // of a service
	Messages int    `json:"messages"`
	Poison   int    `json:"poison"`
	Group    int    `json:"group"`
	Verbose  bool   `json:"verbose"`
}

// child runs what the environment asks for and returns true, or returns false
// when this is no child.
func child() bool {
	text := os.Getenv(childVariable)
	if text == "" {
		return false
	}
	if err := runChild(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// runChild ends in good order when its standard input does: the parent has closed
// it, or is gone.
func runChild(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("%s: %w", childVariable, err)
	}
	signal.Ignore(os.Interrupt) // for the parent to decide
	w := &watch{out: os.Stdout, log: slog.New(slog.DiscardHandler)}
	if s.Verbose {
		w.log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("role", s.Role, "pid", os.Getpid())
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if s.Role == producerRole {
		in, out := io.Pipe()
		go func() {
			_, err := io.Copy(out, os.Stdin)
			out.CloseWithError(err)
			cancel(errParentGone)
		}()
		return produce(ctx, in, s, w)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel(errParentGone)
	}()
	switch {
	case s.Role == resenderRole:
		return resend(ctx, s, w)
	case s.Release == byHand:
		return serveByHand(ctx, s.Role, s, w)
	case s.Release == beside || s.Release == after:
		return serveAdopting(ctx, s.Role, s, w)
	}
	return serve(ctx, s.Role, s, w)
}

var errParentGone = errors.New("the parent closed its pipe")
