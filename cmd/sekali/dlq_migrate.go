package main

import (
	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/source"
	"github.com/sekali-mq/sekali/dlq"
)

func (a *app) dlqMigrate() *cobra.Command {
	var printOnly bool
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Make the tables of the letters, or what is missing of them",
		Long: `Makes the tables that hold dead letters, their history and the runs of redrives, in
the database of --db (the inbox's, where there is only one). Run it once, and after
an upgrade; the user of the DSN must be allowed to create tables.

It never changes or drops a table that is there. With --print nothing is done: the
statements are printed for your own migration tool.`,
		Example: "  sekali dlq migrate --db postgres://db/shop",
		Args:    cobra.NoArgs,
	}
	c.Flags().BoolVar(&printOnly, "print", false, "print the statements instead of running them")
	c.RunE = func(c *cobra.Command, _ []string) error {
		p := a.printer()
		s, err := a.lettersSource()
		if err != nil {
			return err
		}
		if printOnly {
			schema, err := dlq.Schema(dialects[s.Kind])
			if err != nil {
				return s.Explain(err)
			}
			return p.Object(schemaOut{Schema: schema}, func() { p.Linef("%s", schema) })
		}
		o := openInbox{source: s}
		if err := a.connect(c.Context(), &o, true); err != nil {
			return err
		}
		if err := dlq.Migrate(c.Context(), o.db); err != nil {
			return s.Explain(err)
		}
		return p.Object(doneOut{Done: "migrated"}, func() {
			p.Linef("Letters: the tables are there. Next: sekali dlq collect QUEUE")
		})
	}
	return c
}

var dialects = map[source.Kind]string{source.Postgres: "postgres", source.MySQL: "mysql", source.SQLite: "sqlite"}

// lettersSource reads the DSN of the letters without opening it.
func (a *app) lettersSource() (source.Source, error) {
	if dsn, from := a.either("--db", a.flags.db, "SEKALI_DB"); dsn != "" {
		a.secrets.Add(dsn)
		s, err := source.Parse(from, dsn)
		if err != nil {
			return s, &usageError{text: err.Error()}
		}
		return s, nil
	}
	all, err := a.sources()
	if err != nil {
		return source.Source{}, err
	}
	if len(all) > 1 {
		return source.Source{}, usagef("there are several inboxes: say with --db DSN which database holds the letters")
	}
	return all[0].source, nil
}
