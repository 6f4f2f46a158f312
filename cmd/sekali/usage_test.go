package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// everyCommand calls fn with each command that does something.
func everyCommand(c *cobra.Command, fn func(*cobra.Command)) {
	for _, sub := range c.Commands() {
		if sub.Name() != "help" && sub.Name() != "completion" {
			fn(sub)
			everyCommand(sub, fn)
		}
	}
}

func TestEveryHelpHasAnExampleAndSaysWhatItNeverDoes(t *testing.T) {
	everyCommand(newApp(nil, nil, nil, nil).root(), func(c *cobra.Command) {
		if c.Example == "" || !strings.Contains(c.Example, "sekali ") {
			t.Errorf("%s has no example", c.CommandPath())
		}
		if c.Short == "" || c.Long == "" {
			t.Errorf("%s does not say what it does", c.CommandPath())
		}
		for line := range strings.Lines(c.Long) {
			if len(line) > 85 {
				t.Errorf("%s: a line of the help is longer than a terminal: %s", c.CommandPath(), line)
			}
		}
		if !c.HasSubCommands() && !strings.Contains(c.Long, "never") && !strings.Contains(c.Long, "Interrupt") {
			t.Errorf("%s does not say what it never does", c.CommandPath())
		}
	})
}

func TestHelpShowsNothingOfTheEnvironment(t *testing.T) {
	c := caller{t: t, env: []string{
		"SEKALI_INBOX=stock=postgres://u:pass-word-1@h/db", "SEKALI_DB=postgres://u:pass-word-2@h/db",
		"SEKALI_AMQP_URL=amqp://u:pass-word-3@h/", "SEKALI_MANAGEMENT_URL=http://u:pass-word-4@h/",
	}}
	c.call("--help").wants(exitDone, "Exit codes")
	everyCommand(newApp(nil, nil, nil, nil).root(), func(command *cobra.Command) {
		path := strings.Fields(command.CommandPath())[1:]
		c.call(append(path, "--help")...).wants(exitDone, "Usage:", "Examples:")
	})
}

func TestWrongUseEndsWithTwoAndSaysWhatIsRight(t *testing.T) {
	c := caller{t: t}
	for _, use := range []struct{ args, says string }{
		{"bogus", `unknown command "bogus"`},
		{"inbox bogus", `unknown command "bogus"`},
		{"inbox stats --bogus", "unknown flag: --bogus"},
		{"inbox stats", "which inbox? Give --inbox name=DSN"},
		{"inbox stats --inbox a=/x.db --inbox a=/y.db", `two inboxes are named "a"`},
		{"inbox stats --inbox a=/x.db --in b", `there is no inbox of this name (there are: a)`},
		{"inbox stats --inbox a=http://u:pass-word@h/x", "cannot tell which database this is"},
		{"inbox stats --inbox a=postgres://u:pass/word@h/x", "must be percent-encoded"},
		{"inbox stats --inbox a=u:pass-word@tcp(h:1)/", "names no database"},
		{"inbox stats --inbox a=:memory:", "a database in memory belongs to one process"},
		{"inbox stats --timeout -1s --inbox a=/x.db", "--timeout is -1s: must be positive"},
		{"inbox show", "CONSUMER is missing"},
		{"inbox forget stock", "KEY is missing"},
		{"inbox forget stock a b --why x", `unexpected argument "b"`},
		{"inbox forget stock k", "say why: --why"},
		{"inbox rename a b", "say why: --why"},
		{"inbox purge stock --why x", "--keep is missing"},
		{"inbox mode stock sometimes --why x", `must be "enforce" or "observe"`},
		{"inbox horizon stock yesterday --why x", "write it as 2026-12-24T03:00:00Z"},
		{"inbox accept-key-rule stock nonsense --why x", "unknown source"},
		{"hold stock", "say why: --why"},
		{"resume", "CONSUMER is missing"},
		{"explain", "KEY is missing"},
		{"dlq list", "where are the letters?"},
		{"dlq list --state dead", `--state "dead": must be one of waiting`},
		{"dlq list --verdict maybe", `--verdict "maybe": must be one of new`},
		{"dlq list --header x", "write it as name=value"},
		{"dlq kinds --verdict new", "are for sekali dlq list"},
		{"dlq show x", `"x" is no id of a letter`},
		{"dlq park 1", "say why: --why"},
		{"dlq park --why x", "give --yes to do this in a script"},
		{"dlq redrive 1 --as-new", "say why: --why"},
		{"dlq redrive --resume a --cancel b", "choose one"},
		{"dlq redrive --resume a --queue b", "a run keeps the letters it began with"},
		{"dlq redrive --cancel a", "say why: --why"},
		{"dlq redrive 1 --rate -1", "must not be negative"},
		{"dlq collect", "DLQ is missing"},
		{"dlq collect x --concurrency 0", "must be positive"},
	} {
		c.call(strings.Fields(use.args)...).wants(exitUsage, use.says, "--help")
	}
}

func TestTwoInboxesNeedADatabaseForTheLetters(t *testing.T) {
	dir := t.TempDir()
	c := caller{t: t, env: []string{"SEKALI_INBOX_A=" + dir + "/a.db", "SEKALI_INBOX_B=" + dir + "/b.db"}}
	c.call("inbox", "migrate").wants(exitDone, "Inbox a:", "Inbox b:")
	c.call("dlq", "list").wants(exitUsage, "there are several inboxes: say with --db DSN")
	c.call("inbox", "stats", "--in", "a", "--json").wants(exitDone)
}

func TestAURLAtTheWrongPlaceIsNotRepeated(t *testing.T) {
	c := caller{t: t, env: []string{"SEKALI_INBOX=" + newShop(t, places[0]).dsn}}
	for _, dsn := range []string{
		"postgres://u:pass-word@h/db", "amqp://u:pass-word@h/", "u:pass-word@tcp(h:1)/db", "stock=postgres://u:pass-word@h/db",
		"postgres://u:pass/word@h/db", "--amqp=amqp://u:pass-word@h:port/", "--bogus=postgres://u:pass-word@h/db", "--limit=postgres://u:pass-word@h/db",
	} {
		for _, command := range []string{"inbox stats", "inbox check", "inbox show", "dlq show", "dlq list", "explain", "hold", "bogus", ""} {
			r := c.call(append(strings.Fields(command), dsn)...)
			if text := r.out + r.errText; strings.Contains(text, "pass-word") || strings.Contains(text, "pass/word") {
				t.Errorf("sekali %s %s printed the password:\n%s", command, dsn, text)
			}
		}
	}
}
