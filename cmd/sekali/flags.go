package main

import (
	"fmt"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/source"
)

// flags are those that every command takes. What may come from the environment
// is looked up after parsing, so that no help shows it as a default.
type flags struct {
	inboxes    []string
	db, amqp   string
	in         string
	who, table string
	json, yes  bool
	verbose    bool
	timeout    time.Duration
}

const defaultTimeout = 10 * time.Second

func (f *flags) register(root *cobra.Command) {
	fs := root.PersistentFlags()
	fs.StringArrayVar(&f.inboxes, "inbox", nil, "an inbox, as `name=DSN`; may be given again ($SEKALI_INBOX, or $SEKALI_INBOX_<NAME> for each)")
	fs.StringVar(&f.in, "in", "", "use only the inbox of this `name`")
	fs.StringVar(&f.db, "db", "", "`DSN` of the database that holds the letters ($SEKALI_DB); the only inbox's by default")
	fs.StringVar(&f.amqp, "amqp", "", "`URL` of RabbitMQ ($SEKALI_AMQP_URL)")
	fs.StringVar(&f.table, "table", "", "`name` of the claims table ($SEKALI_TABLE); processed_messages by default")
	fs.StringVar(&f.who, "who", "", "`name` that the audit keeps ($SEKALI_WHO); your user name by default")
	fs.BoolVar(&f.json, "json", false, "print one JSON object a line")
	fs.BoolVarP(&f.yes, "yes", "y", false, "do not ask before changing things")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "say more on standard error")
	fs.DurationVar(&f.timeout, "timeout", defaultTimeout, "how long a database or broker may take to answer at the start")
}

func (f *flags) check() error {
	if f.timeout <= 0 {
		return usagef("--timeout is %s: must be positive", f.timeout)
	}
	return nil
}

// environment is the environment's variables.
type environment map[string]string

func newEnvironment(environ []string) environment {
	e := make(environment)
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, "SEKALI_") {
			e[name] = value
		}
	}
	return e
}

const inboxVariable = "SEKALI_INBOX"

// given is one DSN and where it came from, which is all that may be printed of it.
type given struct{ from, name, dsn string }

// inboxes that the flags name, else those that the environment names.
func (a *app) givenInboxes() ([]given, error) {
	var all []given
	for _, text := range a.flags.inboxes {
		name, dsn := source.Name(text)
		all = append(all, given{from: "--inbox " + name, name: name, dsn: dsn})
	}
	if len(all) == 0 {
		all = a.env.inboxes()
	}
	names := make(map[string]bool)
	for i, g := range all {
		a.secrets.Add(g.dsn)
		if g.name == "" {
			all[i].name = defaultName
			all[i].from = strings.TrimSpace(strings.TrimSuffix(g.from, " "))
		}
		if names[all[i].name] {
			return nil, usagef("two inboxes are named %q: give each a name of its own, as in --inbox stock=DSN --inbox mail=DSN", all[i].name)
		}
		names[all[i].name] = true
	}
	if a.flags.in != "" {
		all = slices.DeleteFunc(all, func(g given) bool { return g.name != a.flags.in })
		if len(all) == 0 {
			return nil, usagef("--in %q: there is no inbox of this name (there are: %s)", a.flags.in, strings.Join(sorted(names), ", "))
		}
	}
	return all, nil
}

// defaultName is that of an inbox which was given without one.
const defaultName = "inbox"

func (e environment) inboxes() []given {
	var all []given
	if text := e[inboxVariable]; text != "" {
		name, dsn := source.Name(text)
		all = append(all, given{from: "$" + inboxVariable, name: name, dsn: dsn})
	}
	for _, variable := range sorted(e) {
		if name, ok := strings.CutPrefix(variable, inboxVariable+"_"); ok && name != "" && e[variable] != "" {
			all = append(all, given{from: "$" + variable, name: strings.ToLower(name), dsn: e[variable]})
		}
	}
	return all
}

// either returns the flag's value or the variable's, and which of them it was.
func (a *app) either(flag, value, variable string) (got, from string) {
	if value != "" {
		return value, flag
	}
	return a.env[variable], "$" + variable
}

// tableName of the claims; "" is the default.
func (a *app) tableName() string {
	name, _ := a.either("--table", a.flags.table, "SEKALI_TABLE")
	return name
}

// who does it.
func (a *app) who() (string, error) {
	if who, _ := a.either("--who", a.flags.who, "SEKALI_WHO"); strings.TrimSpace(who) != "" {
		return strings.TrimSpace(who), nil
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username, nil
	}
	return "", usagef("say who you are: --who NAME goes into the audit")
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// plural gives "1 letter", "2 letters".
func plural[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
