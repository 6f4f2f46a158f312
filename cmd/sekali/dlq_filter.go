package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sekali-mq/sekali/dlq"
)

// filter is the flags that choose letters.
type filter struct {
	queue, consumer, kind, reason, errorText, key, run string
	states, verdicts, headers                          []string
	minAge, maxAge                                     time.Duration
	limit                                              int
}

func (f *filter) register(c *cobra.Command, limit int) {
	fs := c.Flags()
	fs.StringVar(&f.queue, "queue", "", "letters that died in this `queue`")
	fs.StringVar(&f.consumer, "consumer", "", "letters of this `consumer`")
	fs.StringVar(&f.kind, "kind", "", "letters of this `kind`, as sekali dlq kinds lists it")
	fs.StringVar(&f.reason, "reason", "", "letters with this `reason`: "+join(reasons))
	fs.StringVar(&f.errorText, "error", "", "letters whose error holds this `text`")
	fs.StringVar(&f.key, "key", "", "letters with this `key`, as the message has it or as sekali prints it")
	fs.StringVar(&f.run, "run", "", "letters that this `run` took up last")
	fs.StringSliceVar(&f.states, "state", nil, "letters in this `state`: "+join(dlq.States())+", or all")
	fs.StringSliceVar(&f.verdicts, "verdict", nil, "letters with this `verdict`: "+join(dlq.Verdicts()))
	fs.StringArrayVar(&f.headers, "header", nil, "letters with this header, as `name=value`")
	fs.DurationVar(&f.minAge, "min-age", 0, "letters collected at least this long ago")
	fs.DurationVar(&f.maxAge, "max-age", 0, "letters collected at most this long ago")
	fs.IntVar(&f.limit, "limit", limit, "at most so many; 0 is no limit")
}

var reasons = []dlq.Reason{dlq.Failed, dlq.Poisoned, dlq.Rejected, dlq.Expired, dlq.MaxLen, dlq.DeliveryLimit, dlq.Unexplained}

// given tells whether anything but the limit restricts.
func (f *filter) given(ids []string) bool {
	return len(ids) > 0 || f.queue != "" || f.consumer != "" || f.kind != "" || f.reason != "" || f.errorText != "" || f.key != "" || f.run != "" ||
		len(f.states)+len(f.verdicts)+len(f.headers) > 0 || f.minAge > 0 || f.maxAge > 0
}

// filter of the letters; states are those that are meant when none is named.
func (f *filter) filter(ids []string, states ...dlq.State) (dlq.Filter, error) {
	out := dlq.Filter{
		Queue: f.queue, Consumer: f.consumer, Kind: f.kind, Error: f.errorText, Key: f.key, Run: f.run,
		MinAge: f.minAge, MaxAge: f.maxAge, Limit: f.limit, States: states,
	}
	if f.limit < 0 || f.minAge < 0 || f.maxAge < 0 {
		return out, usagef("--limit, --min-age and --max-age must not be negative")
	}
	for _, id := range ids {
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil || n <= 0 {
			return out, usagef("%q is no id of a letter: ids are the numbers in the first column of sekali dlq list", id)
		}
		out.IDs = append(out.IDs, n)
	}
	var err error
	if f.reason != "" {
		if out.Reason, err = oneOf("--reason", f.reason, reasons); err != nil {
			return out, err
		}
	}
	if slices.Equal(f.states, []string{"all"}) {
		out.States = dlq.States()
	} else if len(f.states) > 0 {
		out.States = nil
		for _, text := range f.states {
			state, err := oneOf("--state", text, dlq.States())
			if err != nil {
				return out, err
			}
			out.States = append(out.States, state)
		}
	}
	for _, text := range f.verdicts {
		verdict, err := oneOf("--verdict", text, dlq.Verdicts())
		if err != nil {
			return out, err
		}
		out.Verdicts = append(out.Verdicts, verdict)
	}
	for _, text := range f.headers {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return out, usagef("--header %q: write it as name=value", text)
		}
		if out.Headers == nil {
			out.Headers = make(map[string]string)
		}
		out.Headers[name] = value
	}
	return out, nil
}

// open are the states in which a letter needs somebody.
var open = []dlq.State{dlq.Waiting, dlq.Sending, dlq.Parked}

func oneOf[S ~string](flag, text string, all []S) (S, error) {
	if s := S(text); slices.Contains(all, s) {
		return s, nil
	}
	return "", usagef("%s %q: must be one of %s", flag, text, join(all))
}

func join[S ~string](all []S) string {
	texts := make([]string, len(all))
	for i, s := range all {
		texts[i] = string(s)
	}
	return strings.Join(texts, ", ")
}

// whole asks before an act without any condition, and says so to the filter.
func (a *app) whole(ctx context.Context, f *filter, ids []string, out *dlq.Filter, what string) error {
	if f.given(ids) {
		return nil
	}
	out.All = true
	return a.confirm(ctx, what)
}
