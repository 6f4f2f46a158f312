package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	_ "github.com/lib/pq" // the driver of the letters' database

	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// childVariable holds the work of the process that is killed.
const childVariable = "SEKALI_STORM_CHILD"

// lease is short, so that a killed process does not keep its successor waiting.
const lease = 500 * time.Millisecond

// spec is what the child is told.
type spec struct {
	Database, Broker string
	Rate             int
}

// childMain redrives until nothing more is to be done.
func childMain(text string) int {
	var s spec
	err := json.Unmarshal([]byte(text), &s) //nolint:musttag // this program wrote it
	if err == nil {
		err = child(context.Background(), s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "redriving process:", err)
		return 1
	}
	return 0
}

func child(ctx context.Context, s spec) error {
	db, err := sql.Open("postgres", s.Database)
	if err != nil {
		return err
	}
	defer db.Close()
	box, err := pginbox.Open(ctx, db, pginbox.Config{Config: inbox.Config{Service: service}})
	if err != nil {
		return err
	}
	letters, err := dlq.Open(ctx, db, dlq.Config{Inboxes: map[string]*inbox.Inbox{"main": box}})
	if err != nil {
		return err
	}
	conn, err := rabbit.NewConnection(s.Broker, rabbit.ConnectionConfig{})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	pub, err := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	if err != nil {
		return err
	}
	defer func() { _ = pub.Close() }()
	for {
		err := goOn(ctx, letters, pub.ToQueues(), s)
		if !errors.Is(err, dlq.ErrBusy) {
			return err
		}
		// The lease of the one that was killed runs out.
		time.Sleep(lease / 10) //nolint:mnd // often enough
	}
}

// goOn resumes the run that was killed, or begins one.
func goOn(ctx context.Context, letters *dlq.Letters, pub *rabbit.Publisher, s spec) error {
	runs, err := letters.Runs(ctx, 1)
	if err != nil {
		return err
	}
	if len(runs) > 0 && runs[0].State != dlq.Done {
		_, err = letters.Resume(ctx, pub, runs[0].ID, dlq.ResumeConfig{})
		return err
	}
	_, err = letters.Redrive(ctx, pub, dlq.RedriveConfig{
		Filter: dlq.Filter{All: true}, Rate: s.Rate, Batch: 50, Lease: lease, AcceptUnknown: true, KeepGoing: true,
		Note: dlq.Note{Who: "storm", Why: "to find what is lost"},
	})
	return err
}
