package main

import (
	"github.com/spf13/cobra"
)

func (a *app) inboxMigrate() *cobra.Command {
	var printOnly bool
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Make the inbox's tables, or what is missing of them",
		Long: `Makes the tables that the inbox needs: the claims, the registry of consumers, the
audit. Run it before the services that need it start; it may run again at any
time, also from several places at once. The user of the DSN must be allowed to
create tables. An SQLite file that does not exist is made.

It never changes or drops a table that is there. With --print nothing is done:
the statements are printed for your own migration tool.`,
		Example: `  sekali inbox migrate --inbox stock=postgres://db/shop
  sekali inbox migrate --print --inbox stock=postgres://db/shop > migrations/0007_inbox.sql`,
		Args: cobra.NoArgs,
	}
	c.Flags().BoolVar(&printOnly, "print", false, "print the statements instead of running them")
	c.RunE = func(c *cobra.Command, _ []string) error {
		all, err := a.sources()
		if err != nil {
			return err
		}
		p := a.printer()
		for _, o := range all {
			if printOnly {
				p.Linef("-- inbox %s: %s", o.name, o.source.Kind)
				if err := p.Object(schemaOut{o.name, o.source.Schema()}, func() { p.Linef("%s", o.source.Schema()) }); err != nil {
					return err
				}
				continue
			}
			if err := a.connect(c.Context(), &o, true); err != nil {
				return err
			}
			if err := o.source.Migrate(c.Context(), o.db, a.tableName()); err != nil {
				return err
			}
			if err := p.Object(doneOut{Inbox: o.name, Done: "migrated"}, func() {
				p.Linef("Inbox %s: the tables are there. Next: start the services, or \"sekali inbox check\".", o.name)
			}); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}

type schemaOut struct {
	Inbox  string `json:"inbox"`
	Schema string `json:"schema"`
}

// doneOut is what an act did, for scripts.
type doneOut struct {
	Inbox    string `json:"inbox,omitempty"`
	Consumer string `json:"consumer,omitempty"`
	Done     string `json:"done"`
	Detail   string `json:"detail,omitempty"`
}
