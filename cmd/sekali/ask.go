package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// confirm asks before something is changed. Without a terminal it refuses, unless
// --yes was given.
func (a *app) confirm(ctx context.Context, what string) error {
	if a.flags.yes {
		return nil
	}
	if !a.asksThere() {
		return usagef("%s: give --yes to do this in a script", what)
	}
	fmt.Fprintf(a.stderr, "%s. Go on? [y/N] ", what)
	// The reader may wait for ever; an interrupt ends the process all the same.
	answers := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.stdin).ReadString('\n')
		answers <- line
	}()
	select {
	case answer := <-answers:
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return nil
		}
		return failf("nothing was done")
	case <-ctx.Done():
		return failf("interrupted: nothing was done")
	}
}

// ask is confirm for what names the one thing that it changes: in a script --why
// is enough.
func (a *app) ask(ctx context.Context, what string) error {
	if !a.asksThere() {
		return nil
	}
	return a.confirm(ctx, what)
}

// note for the audit; --why is required.
func (a *app) note(why string) (inbox.Note, error) {
	if strings.TrimSpace(why) == "" {
		return inbox.Note{}, usagef(`say why: --why "..." is kept in the audit`)
	}
	who, err := a.who()
	return inbox.Note{Who: who, Why: strings.TrimSpace(why)}, err
}
