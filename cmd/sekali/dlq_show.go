package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/cmd/sekali/internal/report"
	"github.com/sekali-mq/sekali/dlq"
)

func (a *app) dlqShow() *cobra.Command {
	bodyOnly := false
	birth, birthSkew := "", skew
	c := &cobra.Command{
		Use:   "show ID",
		Short: "One letter: message, verdict with its proof, history",
		Long: `Shows all that is known of a letter: where it died and why, every header with its
type, the properties, the body (as text, or as hex where it is none), what the
inbox proves of it, and what was done with it.

It never changes the letter. --body prints nothing but the body, byte by byte.`,
		Example: "  sekali dlq show 4711\n  sekali dlq show 4711 --body | jq .",
		Args:    exactly("ID"),
	}
	c.Flags().BoolVar(&bodyOnly, "body", false, "print only the body")
	registerBirth(c, &birth, &birthSkew)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := letterID(args[0])
		if err != nil {
			return err
		}
		l, err := a.letters(c.Context(), dlq.Config{AllowLossOnCrash: true, BirthHeader: birth, BirthSkew: birthSkew})
		if err != nil {
			return err
		}
		letter, err := l.Get(c.Context(), id)
		if err != nil {
			return l.explain(err)
		}
		if bodyOnly {
			_, err := a.stdout.Write(letter.Message.Body)
			return err
		}
		return a.show(c.Context(), l, letter)
	}
	return c
}

func (a *app) show(ctx context.Context, l *openLetters, letter *dlq.Letter) error {
	judged, err := l.Judge(ctx, letter)
	if err != nil {
		return l.explain(err)
	}
	events, err := l.History(ctx, letter.ID)
	if err != nil {
		return l.explain(err)
	}
	p := a.printer()
	return p.Object(newShowOut(letter, judged[0], events), func() {
		p.Fields("Letter", strconv.FormatInt(letter.ID, 10), "State", string(letter.State),
			"Verdict", string(judged[0].Verdict)+": "+judged[0].Why, "Inbox", judged[0].Inbox,
			"Died in", letter.Queue, "Collected from", letter.Source, "Consumer", letter.Consumer,
			"Key", letter.Key, "No key", letter.NoKey, "Fingerprint", fingerprint(letter),
			"Reason", string(letter.Reason), "Error", letter.Error, "Kind", letter.Kind,
			"Attempts", number(letter.Attempts), "First failure", stamp(letter.FirstFailure), "Died at", stamp(letter.DiedAt),
			"Claim held at", stamp(letter.ClaimedAt), "Collected at", stamp(letter.CollectedAt)+", "+report.Duration(letter.Age)+" ago",
			"Seen", strconv.Itoa(letter.Seen), "Redrives", strconv.Itoa(letter.Redrives), "Last run", letter.Run,
			"Copy of", number(letter.CopyOf), "Merged into", number(letter.MergedInto))
		sayMessage(p, letter.Message)
		p.Linef("\nHistory")
		table := newEvents(p)
		for _, e := range events {
			_ = table.Add(e)
		}
		_ = table.End("nothing")
		p.Linef("\nNext: %s", nextFor(letter, judged[0]))
	})
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return report.Time(t)
}

func number[N int | int64](n N) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(int64(n), 10)
}

func fingerprint(l *dlq.Letter) string {
	text := hex.EncodeToString(l.Fingerprint)
	if text != "" && l.FingerprintGuessed {
		text += " (computed from the body)"
	}
	return text
}

// nextFor says what to do with a letter.
func nextFor(l *dlq.Letter, j dlq.Judgement) string {
	switch l.State {
	case dlq.Sent:
		return "wait: it was put back; it shows up as waiting again if it dies again"
	case dlq.Resolved:
		return "nothing, it is done"
	case dlq.Parked, dlq.Discarded:
		return fmt.Sprintf("sekali dlq reopen %d lets it wait again", l.ID)
	case dlq.Waiting, dlq.Sending:
	}
	switch j.Verdict {
	case dlq.New:
		return fmt.Sprintf("sekali dlq redrive %d sends it", l.ID)
	case dlq.Processed:
		if j.Compared {
			return fmt.Sprintf("sekali dlq redrive %d resolves it without sending: its work is done", l.ID)
		}
		return fmt.Sprintf("if one key always means one content: sekali dlq redrive %d --trust-key --why ...", l.ID)
	case dlq.Conflict:
		return fmt.Sprintf("ask the producer which content is right; sekali dlq redrive %d --as-new --why ... runs this one too, or sekali dlq discard %d --why ...", l.ID, l.ID)
	case dlq.Split:
		return fmt.Sprintf("find out what its handler wrote; then sekali inbox forget %s '%s' --why ... and redrive it, or sekali dlq discard %d --why ...", l.Consumer, l.Key, l.ID)
	case dlq.Unknown:
	}
	return fmt.Sprintf("find out whether its work was done; then sekali dlq redrive %d --accept-unknown --why ..., or sekali dlq discard %d --why ...", l.ID, l.ID)
}

func sayMessage(p *report.Printer, m *dlq.Message) {
	if m == nil {
		return
	}
	p.Linef("\nProperties")
	p.Fields(append(properties(m.Properties), "  exchange", m.Exchange, "  routing key", m.RoutingKey, "  uuid", m.UUID)...)
	p.Linef("\nHeaders")
	for _, name := range sorted(m.Headers) {
		typ, text := typed(m.Headers[name])
		p.Linef("  %s (%s): %s", report.Printable(name), typ, report.Printable(text))
	}
	p.Linef("\nBody (%s)", plural(len(m.Body), "byte"))
	p.Linef("%s", body(m.Body))
}

func properties(m dlq.Properties) []string {
	out := []string{
		"  message-id", m.MessageID, "  content-type", m.ContentType, "  content-encoding", m.ContentEncoding,
		"  correlation-id", m.CorrelationID, "  reply-to", m.ReplyTo, "  expiration", m.Expiration, "  type", m.Type,
		"  user-id", m.UserID, "  app-id", m.AppID, "  timestamp", stamp(m.Timestamp),
		"  delivery-mode", number(int(m.DeliveryMode)), "  priority", number(int(m.Priority)),
	}
	return out
}

// typed gives the AMQP type of a header's value and its text.
func typed(v any) (typ, text string) {
	switch v := v.(type) {
	case nil:
		return "void", ""
	case bool:
		return "bool", strconv.FormatBool(v)
	case string:
		return "string", v
	case []byte:
		return "bytes", hex.EncodeToString(v)
	case time.Time:
		return "timestamp", report.Time(v)
	case dlq.Decimal:
		return "decimal", v.String()
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			t, text := typed(e)
			parts[i] = t + " " + text
		}
		return "array", "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		parts := make([]string, 0, len(v))
		for _, name := range sorted(v) {
			t, text := typed(v[name])
			parts = append(parts, name+"="+t+" "+text)
		}
		return "table", "{" + strings.Join(parts, ", ") + "}"
	case float32, float64:
		return fmt.Sprintf("%T", v), fmt.Sprint(v)
	default: // the integers, whose names in Go are those people know
		return fmt.Sprintf("%T", v), fmt.Sprint(v)
	}
}

// body as text where it is text, else as a dump in hex.
func body(b []byte) string {
	if len(b) == 0 {
		return "(empty)"
	}
	if utf8.Valid(b) && !slices.ContainsFunc([]rune(string(b)), func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f }) {
		lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
		for i, line := range lines {
			lines[i] = report.Printable(strings.ReplaceAll(strings.TrimSuffix(line, "\r"), "\t", "    "))
		}
		return strings.Join(lines, "\n")
	}
	return strings.TrimRight(hex.Dump(b), "\n")
}

type showOut struct {
	letterOut

	Compared bool        `json:"compared"`
	Message  *messageOut `json:"message,omitempty"`
	History  []eventOut  `json:"history"`
	Next     string      `json:"next"`
}

type messageOut struct {
	UUID       string               `json:"uuid,omitempty"`
	Exchange   string               `json:"exchange"`
	RoutingKey string               `json:"routing_key"`
	Properties map[string]string    `json:"properties"`
	Headers    map[string]headerOut `json:"headers"`
	Text       *string              `json:"text,omitempty"`
	Base64     string               `json:"base64,omitempty"`
}

type headerOut struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func newShowOut(l *dlq.Letter, j dlq.Judgement, events []dlq.Event) showOut {
	out := showOut{letterOut: newLetterOut(l, &j), Compared: j.Compared, Next: nextFor(l, j), History: make([]eventOut, 0, len(events))}
	for _, e := range events {
		out.History = append(out.History, newEventOut(e))
	}
	m := l.Message
	if m == nil {
		return out
	}
	out.Message = &messageOut{UUID: m.UUID, Exchange: m.Exchange, RoutingKey: m.RoutingKey, Properties: map[string]string{}, Headers: map[string]headerOut{}}
	pairs := properties(m.Properties)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out.Message.Properties[strings.TrimSpace(pairs[i])] = pairs[i+1]
		}
	}
	for name, v := range m.Headers {
		typ, text := typed(v)
		out.Message.Headers[name] = headerOut{typ, text}
	}
	if utf8.Valid(m.Body) {
		text := string(m.Body)
		out.Message.Text = &text
	} else {
		out.Message.Base64 = base64.StdEncoding.EncodeToString(m.Body)
	}
	return out
}
