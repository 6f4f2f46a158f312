package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/report"
	"github.com/sekali-mq/sekali/cmd/sekali/internal/source"
	"github.com/sekali-mq/sekali/router/rabbit"
)

func (a *app) inboxCheck() *cobra.Command {
	var management string
	c := &cobra.Command{
		Use:   "check",
		Short: "Check databases, tables and, with --amqp, the queues of all consumers",
		Long: `Looks whether every inbox can do what it promises: reachable, the right tables,
keys and collations, durable commits. With --amqp it also looks at the queue of
each registered consumer, its DLQ and its retry queues; with --management at
their limits and policies too.

Ends with 3 when something is wrong that can lose or double messages; each fault
is one sentence with the fix. It never changes anything and takes no message.`,
		Example: `  sekali inbox check
  sekali inbox check --amqp amqp://rabbit/ --management http://rabbit:15672`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringVar(&management, "management", "", "`URL` of RabbitMQ's management API ($SEKALI_MANAGEMENT_URL)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		all, err := a.sources()
		if err != nil {
			return err
		}
		management, _ := a.either("--management", management, "SEKALI_MANAGEMENT_URL")
		a.secrets.Add(management)
		k := &checking{app: a, p: a.printer()}
		for i := range all {
			if err := k.inbox(c.Context(), &all[i]); err != nil {
				return err
			}
		}
		if a.hasBroker() {
			if err := k.queues(c.Context(), all, management); err != nil {
				return err
			}
		} else {
			k.p.Linef("Queues: not checked, give --amqp to look at them too.")
		}
		if k.faults > 0 {
			return leftf("%s to repair, see above", plural(k.faults, "fault"))
		}
		return nil
	}
	return c
}

// checking prints what is found.
type checking struct {
	app    *app
	p      *report.Printer
	faults int
}

type checkOut struct {
	Inbox    string `json:"inbox,omitempty"`
	Broker   string `json:"broker,omitempty"`
	Queue    string `json:"queue,omitempty"`
	Severity string `json:"severity"`
	Text     string `json:"text"`
}

func (k *checking) found(o checkOut) error {
	if o.Severity == rabbit.Fault.String() {
		k.faults++
	}
	return k.p.Object(o, func() {
		what := "inbox " + o.Inbox
		switch {
		case o.Queue != "":
			what = "queue " + o.Queue
		case o.Broker != "":
			what = "broker " + o.Broker
		}
		k.p.Linef("%-12s %s: %s", o.Severity, what, report.Printable(o.Text))
	})
}

// inbox opens one and prints what its check says.
func (k *checking) inbox(ctx context.Context, o *openInbox) error {
	a := k.app
	if err := a.connect(ctx, o, false); err != nil {
		return k.found(checkOut{Inbox: o.name, Severity: "fault", Text: a.secrets.Hide(err.Error())})
	}
	var said []string
	logger := slog.New(&remarks{said: &said})
	limited, cancel := context.WithTimeout(ctx, a.flags.timeout)
	defer cancel()
	box, err := o.source.Inbox(limited, o.db, source.Options{Table: a.tableName(), Logger: logger, Strict: true})
	if err != nil {
		return k.found(checkOut{Inbox: o.name, Severity: "fault", Text: a.secrets.Hide(err.Error())})
	}
	o.box = box
	for _, text := range said {
		if err := k.found(checkOut{Inbox: o.name, Severity: "remark", Text: text}); err != nil {
			return err
		}
	}
	consumers, err := box.Consumers(ctx)
	if err != nil {
		return o.source.Explain(err)
	}
	return k.found(checkOut{Inbox: o.name, Severity: "ok", Text: o.source.String() + ", " + plural(len(consumers), "consumer")})
}

// queues of all consumers.
func (k *checking) queues(ctx context.Context, all []openInbox, management string) error {
	b, err := k.app.broker(ctx)
	if err != nil {
		_, from := k.app.brokerURL()
		return k.found(checkOut{Severity: "fault", Broker: from, Text: k.app.secrets.Hide(err.Error())})
	}
	if err := k.found(checkOut{Severity: "ok", Broker: b.conn.Address(), Text: "answers"}); err != nil {
		return err
	}
	for _, o := range all {
		if o.box == nil {
			continue
		}
		consumers, err := o.box.Consumers(ctx)
		if err != nil {
			return o.source.Explain(err)
		}
		for _, c := range consumers {
			if c.Queue == "" {
				continue
			}
			limited, cancel := context.WithTimeout(ctx, k.app.flags.timeout)
			findings, err := rabbit.Check(limited, b.conn, c.Queue, rabbit.CheckConfig{Management: management})
			cancel()
			if err != nil {
				return b.explain(err)
			}
			for _, f := range findings {
				if err := k.found(checkOut{Queue: f.Queue, Severity: f.Severity.String(), Text: f.Text}); err != nil {
					return err
				}
			}
			if len(findings) == 0 {
				if err := k.found(checkOut{Queue: c.Queue, Severity: "ok", Text: "nothing can be lost from it, its DLQ and its retry queues"}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// remarks collects what a check logs.
type remarks struct{ said *[]string }

func (*remarks) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (r *remarks) Handle(_ context.Context, record slog.Record) error {
	*r.said = append(*r.said, strings.TrimSpace(record.Message))
	return nil
}

func (r *remarks) WithAttrs([]slog.Attr) slog.Handler { return r }
func (r *remarks) WithGroup(string) slog.Handler      { return r }

var errNoBroker = errors.New("which broker? Give --amqp URL, or set SEKALI_AMQP_URL")
