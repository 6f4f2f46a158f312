package main

import (
	"strings"

	"github.com/spf13/cobra"
)

const rootLong = `Looks at claims and dead letters, puts letters back without doing anything
twice, holds consumers, and keeps the inbox's tables. Services keep running.

Begin with what went wrong:
  sekali dlq kinds        which letters there are, by queue and error
  sekali explain KEY      all that is known of one message
  sekali inbox stats      consumers, their claims, whether they are held

DSN is one of
  postgres://user:password@host:5432/database
  user:password@tcp(host:3306)/database        MySQL, MariaDB
  /path/to/file.db, or file:/path/to/file.db   SQLite

URLs are better in the environment than in flags, where other users of the
machine can read them: SEKALI_INBOX, SEKALI_DB, SEKALI_AMQP_URL. They are never
printed.

Exit codes
  0  done
  1  failed: the sentence on standard error says why and what to do
  2  wrong use: nothing was done
  3  done as far as it goes, and something is left that needs an operator`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:               "sekali",
		Short:             "Look at claims and dead letters, and put letters back",
		Long:              rootLong,
		Example:           "  sekali dlq kinds --inbox stock=postgres://db/shop",
		Args:              cobra.NoArgs,
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: a.begin,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		RunE:              help,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usagef("%s", firstLine(err)) })
	a.flags.register(root)
	root.AddCommand(a.dlqCommand(), a.explainCommand(), a.inboxCommand(), a.holdCommand(), a.resumeCommand())
	return root
}

// group makes a command that only holds others.
func group(use, short, long, example string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: cobra.NoArgs, RunE: help}
	c.AddCommand(commands...)
	return c
}

// help is what a command that only holds others does.
func help(c *cobra.Command, _ []string) error { return c.Help() }

// firstLine of an error: what the flag parser says may repeat a value, but not
// one of a URL, which are plain strings.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
