package pgxinbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/internal/postgres"
)

// proof fails with badLimit unless the transaction that holds the claim is the
// open one. Nothing but this gives the error: no trigger that runs at COMMIT
// will.
const (
	proof    = "select 1 limit case when " + postgres.Marked + " then 1 else -1 end"
	badLimit = "2201W"
	commit   = "commit"
	// In one string the server runs COMMIT only after the proof succeeded. A line of
	// its own, so that it is found in logs and captures.
	proofAndCommit = proof + ";\n" + commit
)

// prove asks the server, without commit.
func (s *session) prove(ctx context.Context) error {
	_, err := s.tx.conn.Exec(ctx, proof)
	if postgres.SQLState(err) == badLimit {
		return inbox.ErrEnded
	}
	return err
}

// sendProofAndCommit returns the tag of COMMIT, and whether the proof before it
// succeeded.
func (s *session) sendProofAndCommit(ctx context.Context) (tag pgconn.CommandTag, proved bool, err error) {
	if !s.store.prepares {
		// The tag is that of the last statement that the server finished.
		tag, err = s.tx.conn.Exec(ctx, proofAndCommit)
		return tag, tag.String() != "", err
	}
	// The server skips what is behind an error in a batch. To parse and plan the proof
	// each time would cost it a quarter of all that it does for a message.
	var b pgx.Batch
	b.Queue(proof)
	b.Queue(commit)
	br := s.tx.conn.SendBatch(ctx, &b)
	if _, err = br.Exec(); err == nil {
		proved = true
		tag, err = br.Exec()
	}
	if cerr := br.Close(); err == nil {
		err = cerr
	}
	return tag, proved, err
}

// proveAndCommit does both in one trip.
func (s *session) proveAndCommit(ctx context.Context) error {
	tag, proved, err := s.sendProofAndCommit(ctx)
	var told *pgconn.PgError
	switch {
	case err == nil && tag.String() == "COMMIT":
		return nil
	case err == nil:
		return &inbox.SwallowedError{Err: fmt.Errorf("COMMIT was answered with %s: a statement failed and its error was not returned", tag)}
	case postgres.SQLState(err) == badLimit && !proved:
		return inbox.ErrEnded
	case errors.As(err, &told) && !proved:
		return err // the server gave up before COMMIT
	case postgres.Uncommitted(err):
		return err
	}
	return fmt.Errorf("%w: %w", inbox.ErrUnknownCommit, err)
}
