package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/source"
	"github.com/sekali-mq/sekali/dlq"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// lettersTable is looked for before the letters are opened.
const lettersTable = "sekali_dead_letters"

// openLetters is the letters' database with the inboxes that judge them.
type openLetters struct {
	*dlq.Letters

	source  source.Source
	db      *sql.DB
	inboxes []openInbox
}

// lettersDB is the database of the letters: --db, else the only inbox's.
func (a *app) lettersDB(ctx context.Context, inboxes []openInbox, create bool) (s source.Source, db *sql.DB, err error) {
	dsn, from := a.either("--db", a.flags.db, "SEKALI_DB")
	if dsn == "" {
		switch len(inboxes) {
		case 0:
			return s, nil, usagef("where are the letters? Give --db DSN or --inbox name=DSN, or set SEKALI_DB or SEKALI_INBOX")
		case 1:
			return inboxes[0].source, inboxes[0].db, nil
		}
		return s, nil, usagef("there are several inboxes: say with --db DSN which database holds the letters")
	}
	a.secrets.Add(dsn)
	if s, err = source.Parse(from, dsn); err != nil {
		return s, nil, &usageError{text: err.Error()}
	}
	o := openInbox{source: s}
	err = a.connect(ctx, &o, create)
	return s, o.db, err
}

// letters opens the letters and all inboxes that were named.
func (a *app) letters(ctx context.Context, c dlq.Config) (*openLetters, error) {
	var l openLetters
	if given, err := a.givenInboxes(); err != nil {
		return nil, err
	} else if len(given) > 0 {
		if l.inboxes, err = a.inboxes(ctx); err != nil {
			return nil, err
		}
	}
	var err error
	if l.source, l.db, err = a.lettersDB(ctx, l.inboxes, false); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, a.flags.timeout)
	defer cancel()
	columns, err := l.source.Columns(limited, l.db, lettersTable)
	if err != nil {
		return nil, err
	}
	if len(columns) == 0 {
		return nil, failf("%s: there is no table %s (or this user may not read it): run \"sekali dlq migrate\", or give the letters' database with --db", l.source, lettersTable)
	}
	c.Inboxes = make(map[string]*inbox.Inbox)
	for _, o := range l.inboxes {
		c.Inboxes[o.name] = o.box
	}
	c.Logger = a.logger()
	if l.Letters, err = dlq.Open(limited, l.db, c); err != nil {
		return nil, l.source.Explain(err)
	}
	return &l, nil
}

// explain says what an error of the letters means at the command line.
func (l *openLetters) explain(err error) error {
	switch {
	case err == nil || isA[*usageError](err) || isA[*leftError](err) || isA[*sayError](err):
		return err
	case errors.Is(err, dlq.ErrNoLetter):
		return failf("there is no letter of this id: sekali dlq list shows those that there are")
	case errors.Is(err, dlq.ErrNoRun):
		return failf("there is no run of this id: sekali dlq runs shows those that there are")
	case errors.Is(err, dlq.ErrBusy):
		return failf("another redrive has this queue: see sekali dlq runs; wait for it, or end it with sekali dlq redrive --cancel RUN")
	}
	if !l.source.IsFault(err) {
		return err
	}
	return l.source.Explain(err)
}

// neededByLetters returns what keeps the claims that open letters of a consumer
// need; nil where there is no table of letters.
func (a *app) neededByLetters(ctx context.Context, in openInbox, c inbox.Consumer) (func(context.Context, []inbox.Claim) ([]bool, error), error) {
	if dsn, _ := a.either("--db", a.flags.db, "SEKALI_DB"); dsn == "" {
		limited, cancel := context.WithTimeout(ctx, a.flags.timeout)
		defer cancel()
		columns, err := in.source.Columns(limited, in.db, lettersTable)
		if err != nil {
			return nil, err
		}
		if len(columns) == 0 {
			a.sayf("sekali: warning: no table of letters in %s: claims that letters need are not spared (--db names the letters' database)", in.source)
			return nil, nil
		}
	}
	l, err := a.letters(ctx, dlq.Config{AllowLossOnCrash: true})
	if err != nil {
		return nil, err
	}
	return l.Needs(c), nil
}

// skew is the default of --birth-skew.
const skew = 5 * time.Minute
