package main

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/source"
	"github.com/sekali-mq/sekali/middleware/inbox"
)

// openInbox is one inbox that an operator named.
type openInbox struct {
	name   string
	source source.Source
	db     *sql.DB
	box    *inbox.Inbox
}

// sources of the inboxes, read but not opened.
func (a *app) sources() (all []openInbox, err error) {
	given, err := a.givenInboxes()
	if err != nil {
		return nil, err
	}
	if len(given) == 0 {
		return nil, usagef("which inbox? Give --inbox name=DSN, or set SEKALI_INBOX: the database in which the services keep their claims")
	}
	for _, g := range given {
		s, err := source.Parse(g.from, g.dsn)
		if err != nil {
			return nil, &usageError{text: err.Error()}
		}
		all = append(all, openInbox{name: g.name, source: s})
	}
	return all, nil
}

// connect opens the pool.
func (a *app) connect(ctx context.Context, o *openInbox, create bool) (err error) {
	limited, cancel := context.WithTimeout(ctx, a.flags.timeout)
	defer cancel()
	if o.db, err = o.source.Open(limited, create); err != nil {
		return err
	}
	a.later(o.db)
	return nil
}

// open connects and checks the tables.
func (a *app) open(ctx context.Context, o *openInbox) (err error) {
	if err := a.connect(ctx, o, false); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, a.flags.timeout)
	defer cancel()
	o.box, err = o.source.Inbox(limited, o.db, source.Options{Table: a.tableName(), Bounds: a.bounds, Logger: a.logger()})
	return err
}

// inboxes opens all that were named; one that cannot be opened is an error.
func (a *app) inboxes(ctx context.Context) ([]openInbox, error) {
	all, err := a.sources()
	if err != nil {
		return nil, err
	}
	for i := range all {
		if err := a.open(ctx, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// registered finds the one inbox that has this consumer.
func (a *app) registered(ctx context.Context, name string) (openInbox, inbox.Consumer, error) {
	all, err := a.inboxes(ctx)
	if err != nil {
		return openInbox{}, inbox.Consumer{}, err
	}
	var found []openInbox
	var rows []inbox.Consumer
	var known []string
	for _, o := range all {
		consumers, err := o.box.Consumers(ctx)
		if err != nil {
			return o, inbox.Consumer{}, o.source.Explain(err)
		}
		for _, c := range consumers {
			known = append(known, c.Name)
			if c.Name == name {
				found, rows = append(found, o), append(rows, c)
			} else if slices.Contains(c.FormerNames, name) {
				return o, c, failf("consumer %q is called %q now (inbox %s): use that name", name, c.Name, o.name)
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], rows[0], nil
	case 0:
		return openInbox{}, inbox.Consumer{}, failf("there is no consumer %q: %s", name, whichConsumers(known))
	}
	names := make([]string, len(found))
	for i, o := range found {
		names[i] = o.name
	}
	return openInbox{}, inbox.Consumer{}, usagef("consumer %q is in several inboxes (%s): say which with --in", name, strings.Join(names, ", "))
}

func whichConsumers(known []string) string {
	const most = 10
	if len(known) == 0 {
		return "no service has registered one here yet; check that this is the database that the services use"
	}
	slices.Sort(known)
	if len(known) > most {
		return fmt.Sprintf("there are %d (see sekali inbox stats)", len(known))
	}
	return "there are " + strings.Join(known, ", ")
}
