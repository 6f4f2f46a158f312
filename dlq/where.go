package dlq

import (
	"fmt"
	"slices"
	"time"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// maxIDs bounds Filter.IDs: all of them stand in each statement.
const maxIDs = 10_000

// check refuses what cannot be meant.
func (f Filter) check() error {
	for _, s := range f.States {
		if !slices.Contains(States(), s) {
			return fmt.Errorf("state %q: there are %v", s, States())
		}
	}
	for _, v := range f.Verdicts {
		if !slices.Contains(Verdicts(), v) {
			return fmt.Errorf("verdict %q: there are %v", v, Verdicts())
		}
	}
	switch {
	case f.MinAge < 0 || f.MaxAge < 0:
		return fmt.Errorf("ages %s and %s: must not be negative", f.MinAge, f.MaxAge)
	case f.MaxAge > 0 && f.MinAge > f.MaxAge:
		return fmt.Errorf("no age is at least %s and at most %s", f.MinAge, f.MaxAge)
	case f.Limit < 0:
		return fmt.Errorf("limit %d: must not be negative", f.Limit)
	case len(f.IDs) > maxIDs:
		return fmt.Errorf("%d ids: at most %d at once", len(f.IDs), maxIDs)
	}
	return nil
}

// chooses reports whether there is any condition.
func (f Filter) chooses() bool {
	return f.All || len(f.IDs)+len(f.States)+len(f.Headers)+len(f.Verdicts) > 0 || f.MinAge+f.MaxAge > 0 ||
		f.Queue+f.Consumer+f.Kind+string(f.Reason)+f.Error+f.Key+f.Run != ""
}

// where adds the conditions that the database tells; states replace those of f.
func (f Filter) where(s *stmt, states ...State) *stmt {
	s.add(" WHERE 1 = 1")
	if len(f.IDs) > 0 {
		s.add(" AND id IN ", list(s, f.IDs))
	}
	if len(states) == 0 {
		states = f.States
	}
	if len(states) > 0 {
		s.add(" AND state IN ", list(s, stateTexts(states)))
	}
	for _, c := range []struct{ column, value string }{
		{"queue", f.Queue}, {"consumer_name", f.Consumer}, {"kind", f.Kind}, {"reason", string(f.Reason)}, {"run_id", f.Run},
	} {
		if c.value != "" {
			s.add(" AND ", c.column, " = ").addArg(c.value)
		}
	}
	if f.Key != "" {
		s.add(" AND message_key IN ", list(s, slices.Compact([]string{f.Key, inbox.StoredKey(f.Key)})))
	}
	if f.Error != "" {
		s.add(" AND ", fmt.Sprintf(s.d.holds, "error_text", s.arg(f.Error)))
	}
	for _, a := range []struct {
		age time.Duration
		op  string
	}{{f.MinAge, " <= "}, {f.MaxAge, " >= "}} {
		if a.age > 0 {
			s.add(" AND collected_at", a.op, s.d.ago(s, a.age))
		}
	}
	return s
}

func stateTexts(states []State) []string {
	texts := make([]string, len(states))
	for i, st := range states {
		texts[i] = string(st)
	}
	return texts
}

// ago is the database's clock minus a time.
func (d *dialect) ago(s *stmt, age time.Duration) string {
	switch d.name {
	case "postgres":
		return d.now + " - " + s.arg(age.Microseconds()) + "::bigint * INTERVAL '1 microsecond'"
	case "mysql":
		return "TIMESTAMPADD(MICROSECOND, " + s.arg(-age.Microseconds()) + ", " + d.now + ")"
	}
	return d.now + " - " + s.arg(age.Milliseconds())
}

// match adds the conditions on headers, which the database does not read.
func (f Filter) match(r *row) bool {
	for name, want := range f.Headers {
		if _, there := r.Message.Headers[name]; !there || r.Message.header(name) != want {
			return false
		}
	}
	return true
}

// part of the rows that f needs to see.
func (f Filter) part() part {
	if len(f.Headers) > 0 || len(f.Verdicts) > 0 {
		return withEnvelope
	}
	return plainRow
}
